#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `cero info` reports the build, the machine, and every environment variable that the sources read.
source "$CERO_SOURCE/tests/cli/lib.sh"

cero info
expect_code 0
expect_no_err
expect_out 'version'
# The same words in both places, and the MPI that the build found.
mpi=$(sed -n 's/^mpi  *//p' "$work/out")
cero --version
expect_out "mpi: $mpi"
case $CERO_TEST_MPI in
    openmpi) [[ $mpi == 'Open MPI '[1-9]*.* ]] || fail "expected Open MPI, found '$mpi'" ;;
    mpich) [[ $mpi == 'MPICH '[1-9]*.* ]] || fail "expected MPICH, found '$mpi'" ;;
    none) [ "$mpi" = none ] || fail "expected no MPI, found '$mpi'" ;;
esac

CERO_POISON='a "quoted" value' cero info --json
expect_code 0
expect_json
expect_out '"CERO_POISON": "a \"quoted\" value"'

cero info
read_by_sources=$(grep -rhoE 'getenv\("[A-Z_]+"\)' "$CERO_SOURCE/src" | sed 's/.*"\(.*\)".*/\1/' | sort -u)
[ -n "$read_by_sources" ]
for name in $read_by_sources; do
    case $name in
        PMI_* | PMIX_* | SLURM_*) ;; # a launcher's: how a process learns that it is a rank
        *) expect_out "  $name " ;;
    esac
done

# docs/config.md is what the key table says.
cero info --config-docs
expect_code 0
cmp "$work/out" "$CERO_SOURCE/docs/config.md" || fail "docs/config.md is out of date: cero info --config-docs > docs/config.md"
