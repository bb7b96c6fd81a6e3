# Needs Go, a C and a C++ compiler, and Python 3.11 or later with its headers.
# The first run makes a virtual environment in .venv and fills it; later runs
# do so only when the requirements in pyproject.toml have changed.

VENV ?= .venv
FUZZTIME ?= 60s

# The first interpreter that is new enough.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

PY := $(VENV)/bin/python
LIBRARY := python/nvfuser_go/_C.abi3.so

# Every Go command over the whole project compiles the package capi, which includes Python.h.
CGO = CGO_CFLAGS="$$($(PY) -c 'import setup; print(setup.cgo_cflags())')"

FAKE_CUDA = NVFUSER_GO_LIBCUDA=$(CURDIR)/build/c/libcuda.so CUDADRV_RECORD=$(CURDIR)/build/c/record CUDADRV_HOPPER=1 \
	NVFUSER_GO_CACHE_DIR=$(CURDIR)/build/c/kernels NVFUSER_GO_LIBNVRTC=$$(ls $(CURDIR)/$(VENV)/lib/python*/site-packages/nvidia/*/lib/libnvrtc.so.* | tail -1)

# Packages that start goroutines or are called from several.
RACE = $(addprefix ./,$(addsuffix /...,$(wildcard core passes schedulers segmenter codegen cudadrv executor)))

# Go looks for a version control system to stamp a binary with, and fails in a checkout that another user owns.
export GOFLAGS := $(GOFLAGS) -buildvcs=false
export PYTHONPATH := $(CURDIR)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.PHONY: demo test build wheel fuzz lint bench generate clean setup env test-go test-race test-c test-examples test-python test-gpu gpu-programs gpu-bundle

demo: build
	$(PY) examples/quickstart.py

# In this order, also under -j: the last line is then the summary of the Python tests.
.NOTPARALLEL:
test: lint test-go test-race test-c test-examples test-python

build: setup
	$(PY) setup.py -q build_ext --inplace

wheel: setup
	$(PY) -m pip -q wheel . --no-deps --no-build-isolation --wheel-dir dist

setup:
	@if [ -z "$(PYTHON)" ]; then echo "Python 3.11 or later is needed, and none was found on PATH; set PYTHON=" >&2; exit 1; fi
	@if ! command -v go >/dev/null; then echo "Go is needed, and there is no go command on PATH: https://go.dev/dl" >&2; exit 1; fi
	@[ -x $(PY) ] || $(PYTHON) -m venv $(VENV)
	@key=$$($(PY) tools/requirements.py --key) && stamp=$(VENV)/installed-$$key && if [ ! -e $$stamp ]; then \
		echo "Installing the requirements into $(VENV); torch takes some minutes the first time"; \
		$(PY) tools/requirements.py >$(VENV)/requirements.txt && \
		{ $(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip; } && \
		$(PY) -m pip install -q -r $(VENV)/requirements.txt && touch $$stamp; fi

lint: build
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(CGO) go test ./tests/go -run '^TestLint'

# The programs of tests have small heaps and make much that is soon of no use: with fewer collections of it they take a third less time.
test-go: build
	GOGC=400 GOMEMLIMIT=3GiB $(CGO) go test ./... -skip '^TestLint'

test-race: build
	$(if $(RACE),$(CGO) go test -race -short -timeout 30m $(RACE))

# The libcuda is a fake one, which writes down what it is asked for. MALLOC_PERTURB_
# makes glibc overwrite what is freed, so that a use after that shows.
test-c: build
	mkdir -p build/c
	flags=$$($(PY) -c 'import setup; print(setup.cgo_cflags())') && eval $(CC) $$flags -shared -fPIC -fvisibility=default cudadrv/real/testdata/libcuda.c -o build/c/libcuda.so
	$(CXX) -std=c++17 -Wall -Wextra -Werror -fsyntax-only -x c++ capi/nvfuser_go.h
	@set -e; for source in tests/c/*.c; do \
		program=build/c/$$(basename $$source .c); \
		$(CC) -std=c11 -O1 -g -Wall -Wextra -Werror -Icapi $$source -o $$program \
			-Lpython/nvfuser_go -l:_C.abi3.so -Wl,-rpath,'$$ORIGIN/../../python/nvfuser_go' -pthread -lm; \
		echo $$program; case $$program in *launch) $(FAKE_CUDA) MALLOC_PERTURB_=85 timeout 300 $$program;; *) timeout 300 $$program;; esac; done

test-examples: build
	@set -e; for example in $(wildcard examples/*.py); do echo $$example; $(PY) $$example >/dev/null; done

test-python: build
	$(PY) -m pytest

# Every fuzz target, one after the other, up to the first that fails. Unless told so, Go makes interesting inputs small for most of that time.
fuzz: build
	@mkdir -p build
	@$(CGO) go test -list '^Fuzz' ./... >build/tests
	@awk '/^Fuzz/ { names[n++] = $$1 } /^ok/ { for (i = 0; i < n; i++) print $$2, names[i]; n = 0 }' build/tests >build/targets
	@set -e; while read -r package name; do echo "$$package $$name"; \
		go test $$package -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5s </dev/null; done <build/targets

# What tests/gpu/run.py needs of Go, and all that it needs, for a machine with a GPU and without Go.
gpu-programs: build
	@mkdir -p build/gpu
	$(CGO) go test -c -ldflags="-s -w" -o build/gpu/tests.test ./tests/go
	$(CGO) go test -c -ldflags="-s -w" -o build/gpu/driver.test ./cudadrv/real
	$(CGO) go test -c -ldflags="-s -w" -o build/gpu/cuda.test ./codegen/cuda
	@git describe --always --dirty >build/gpu/COMMIT 2>/dev/null || echo unknown >build/gpu/COMMIT

gpu-bundle: gpu-programs
	tar -czf build/gpu-bundle.tar.gz --exclude=__pycache__ --exclude=python/nvfuser_go/include pyproject.toml python/nvfuser_go \
		tests/gpu tests/python benchmarks/*.py benchmarks/kernels tests/go/testdata/corpus tools codegen/cuda/testdata examples \
		build/gpu/tests.test build/gpu/driver.test build/gpu/cuda.test build/gpu/COMMIT
	@ls -l build/gpu-bundle.tar.gz

test-gpu: build
	$(PY) tests/gpu/run.py

bench: build
	$(PY) benchmarks/run.py

# Files that are made from the op table and kept in the repository.
generate: build
	$(CGO) go generate ./...

# For go commands by hand: eval "$(make -s env)"
env: setup
	@$(PY) -c 'import setup, shlex; print("export CGO_CFLAGS=" + shlex.quote(setup.cgo_cflags()))'

clean:
	rm -rf build dist python/nvfuser_go.egg-info python/nvfuser_go/include $(LIBRARY)
