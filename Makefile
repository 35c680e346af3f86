# SPDX-License-Identifier: Apache-2.0
# The two commands of the README, `make run` and `make test`, and the few others one types often.
# CMake does the building; this file installs what is missing first and names the folders.

BUILD  := build/release
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX ?= /usr/local
# CERO_WERROR=ON in the environment turns warnings into errors (.ci/run sets it).
CERO_WERROR ?= OFF

.PHONY: build run test test-long deps configure install format check clean

build: configure
	cmake --build $(BUILD) --parallel $(JOBS)

# Trains a small model on this project's own text, draws its loss and lets it write.
run: build
	tools/run.sh $(BUILD)/cero

# Without the tests marked slow; .ci/run has them too, but for those marked long.
test: build
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error --parallel $(JOBS) -LE '^slow$$'

# Kills, errors and flipped bits everywhere, resumed runs of every kind: half an hour on two cores.
test-long: build
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error --parallel $(JOBS) -L '^long$$'

# Installs nothing, and needs no network, when everything is there.
deps:
	@tools/install_packages.sh

configure: deps
	cmake --preset release -G Ninja -DCERO_WERROR=$(CERO_WERROR)

install: build
	cmake --install $(BUILD) --prefix $(PREFIX)

format:
	git ls-files '*.c' '*.h' | xargs clang-format-14 -i

check:
	git ls-files '*.c' '*.h' | xargs clang-format-14 --dry-run -Werror
	python3 tools/check_floors.py
	python3 tools/check_docs.py
	python3 tools/check_sizes.py

clean:
	rm -rf build out
