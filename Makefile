# SPDX-License-Identifier: Apache-2.0
#
# The short way in; the build itself is meson's. "make help" tells what there is.

BUILD ?= build
# The distribution's Python, for whose modules packaging/install-deps cares, whatever else is first in PATH.
PYTHON ?= /usr/bin/python3
# More options for "meson setup" of a new build folder.
MESON_OPTIONS ?=
# Arguments for the program behind a target: make run ARGS="--help", make check ARGS="unit live".
ARGS ?=

export DEBIAN_FRONTEND := noninteractive

# The tests are built when they are asked for: to build and run needs fewer packages.
meson_setup = test -f $(BUILD)/build.ninja || meson setup $(MESON_OPTIONS) -Dtests=false $(BUILD)

.PHONY: help deps build build-arm64 run check vm vm-seed bench install fmt clean
.NOTPARALLEL:

help:
	@echo "make run      install what the build needs, build, run the daemon with a live view; Ctrl-C ends it"
	@echo "make check    install what the tests need, build, run all tests"
	@echo "make build    install what the build needs, build into $(BUILD)/"
	@echo "make build-arm64  install what cross building needs, build for arm64 into $(BUILD)-arm64/"
	@echo "make vm       the whole matrix of kernels and tests under emulation; writes docs/kernels.md"
	@echo "make vm-seed  build a kernel for arm64 with the page-fault tracepoints, ten minutes once, and test on it"
	@echo "make bench    measure what a page fault costs with and without faultd"
	@echo "make install  meson install (DESTDIR is honoured)"
	@echo "make fmt      format the C sources"
	@echo "make clean    remove the build folders"

deps:
	@packaging/install-deps build

build: deps
	@$(meson_setup)
	@ninja -C $(BUILD)

build-arm64:
	@packaging/install-deps cross
	@test -f $(BUILD)-arm64/build.ninja || \
		meson setup $(MESON_OPTIONS) --cross-file packaging/cross/aarch64-linux-gnu.ini -Dtests=false $(BUILD)-arm64
	@ninja -C $(BUILD)-arm64

run: build
	@exec $(PYTHON) tests/dev/devrun.py --build $(BUILD) $(ARGS)

check:
	@packaging/install-deps test
	@exec $(PYTHON) tests/run --build $(BUILD) $(ARGS)

# All kernels, not only those of "make check".
vm:
	@packaging/install-deps test
	@FAULTD_VM=all FAULTD_VM_TABLE=docs/kernels.md exec $(PYTHON) tests/run --build $(BUILD) vm

# One kernel, of our own making.
vm-seed:
	@packaging/install-deps seed
	@tests/vm/seed/build
	@FAULTD_VM=seed exec $(PYTHON) tests/run --build $(BUILD) vm-seed

bench:
	@packaging/install-deps test
	@$(meson_setup)
	@meson configure $(BUILD) -Dtests=true
	@ninja -C $(BUILD)
	@FAULTD_BUILD=$(abspath $(BUILD)) exec $(PYTHON) tests/bench/bench.py $(ARGS)

install: build
	@meson install -C $(BUILD) --no-rebuild

fmt:
	@find bpf config daemon tests -name '*.[ch]' -exec clang-format -i {} +

clean:
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-arm64
