#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Documents name files that are there, and the README's C is the example that is built and run.
set -euo pipefail
cd "$CERO_SOURCE"
failed=0

# Links of the documents, and files that the tour names.
for document in README.md docs/*.md; do
    while IFS= read -r target; do
        if [ ! -e "$(dirname "$document")/$target" ]; then
            echo "$document: $target is not there"
            failed=1
        fi
    done < <(grep -oE '\]\([^)#]+\)' "$document" | sed 's/^](\(.*\))$/\1/' | grep -v '^https\?:')
done
# Names stand between backquotes.
# shellcheck disable=SC2016
named=$(grep -oE '`(src|include|tests|docs|examples|tools)/[A-Za-z0-9_./-]+`' docs/tour.md README.md |
    sed 's/.*`\(.*\)`/\1/' | sort -u)
[ "$(wc -l <<<"$named")" -ge 12 ]
for file in $named; do
    if [ ! -e "$file" ]; then
        echo "a document names $file, which is not there"
        failed=1
    fi
done

# Every line of the README's C stands in the example.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside && NF' README.md >"$work/readme.c"
[ -s "$work/readme.c" ]
while IFS= read -r line; do
    if ! grep -qxF -- "$line" examples/first_model.c; then
        echo "README.md: examples/first_model.c has no line '$line'"
        failed=1
    fi
done <"$work/readme.c"

# The README's packages are those that a build installs.
packages=$(awk '/^The Debian packages/ { near = 1 } near && /^```$/ { if (inside) exit; inside = 1; next } inside' \
    README.md | xargs)
if [ "$packages" != "$(tools/install_packages.sh --list | LC_ALL=C sort | xargs)" ]; then
    echo "README.md lists '$packages', tools/install_packages.sh '$(tools/install_packages.sh --list | xargs)'"
    failed=1
fi

# The README's config is one that cero takes.
awk '/^```json$/ { inside = 1; next } /^```$/ { inside = 0 } inside' README.md >"$work/ds_config.json"
"$CERO_COMMAND" inspect "$work/ds_config.json" >/dev/null
exit $failed
