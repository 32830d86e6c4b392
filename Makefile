# Variables may be set on make's command line or in the environment: make passes both on to switchml-patch,
# the scripts in ci/ and the tests.

FLAGS := DPDK MLX5 MLX4 RDMA DEBUG
PATHS := BUILDDIR SWITCHML_HOME GRPC_HOME DPDK_HOME SWITCHML_DEV_ROOT
TARGETS := PYTHON VENV ARGS ENVIRONMENT LOCK WORK IMAGE IMAGE_ARGS IMAGE_FILE IMAGE_TAG ENGINE MOUNTS \
  TORCH TORCH_INDEX FRAMEWORKS PIN PYTORCH_SOURCE SWITCHML_SOURCE SWITCHML_UNFIXED CACHE \
  SWITCHML_TEST_% SWITCHML_FUZZ_%
# Those that patchgen/core/wheel/variables.py passes to a build, and those of the programs that it starts.
PROGRAMS := MAKE SHELL HOME PATH TMPDIR TERM USER LOGNAME LD_LIBRARY_PATH LC_% LANG \
  CC CXX CPP LD AR CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH \
  LD_RUN_PATH COMPILER_PATH GCC_EXEC_PREFIX CUDACXX CUDAHOSTCXX BLAS VERBOSE MAX_JOBS SOURCE_DATE_EPOCH \
  BUILD_% USE_% CMAKE_% CUDA_% CUDNN_% NCCL_% NVCC_% TORCH_% MKL_% MKLDNN_% MAGMA_% CAFFE2_% ATEN_% \
  ONNX_% INTERN_% BOOST_% Boost_% Open_% OpenBLAS_% OMP_% GLOO_% PYTORCH_% NUMPY_% PKG_CONFIG PKG_CONFIG_% CCACHE_% SCCACHE_% AWS_% \
  XDG_% PIP_% PYTHON% GIT_% SSL_CERT_% CURL_CA_BUNDLE REQUESTS_CA_BUNDLE PRE_COMMIT_% DEBIAN_% \
  http_proxy https_proxy no_proxy all_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY
VARIABLES := $(FLAGS) $(PATHS) $(TARGETS) $(PROGRAMS)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# A make that calls this one passes its own variables on.
ifeq ($(MAKELEVEL),0)
given := $(foreach name,$(.VARIABLES),$(if $(findstring command line,$(origin $(name))),$(name)))
unknown := $(firstword $(filter-out $(VARIABLES) -*-%,$(given)))
nearest = $(shell $(PYTHON) -c 'import difflib, sys; \
  print(*difflib.get_close_matches(sys.argv[1].upper(), sys.argv[2:], 1))' \
  '$(unknown)' $(filter-out %%,$(subst %,%%,$(FLAGS) $(PATHS) $(TARGETS))) 2>/dev/null)
advice = $(if $(nearest),did you mean $(nearest)?,make help lists the variables)
$(if $(unknown),$(error unknown variable $(unknown) ($(advice))))
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  Flags, 0 or 1: $(FLAGS)"
	@echo "  Paths: $(PATHS)"
	@echo "  For example: make patch DPDK=1 MLX5=1 SWITCHML_HOME=/opt/switchml"
	@echo "  Of single targets: $(TARGETS)" | fold -s -w 100
	@echo "  Others are those of compilers, pip, git, ccache and PyTorch's build, as USE_MKLDNN=0."

$(VENV)/pip:
	@PYTHON='$(PYTHON)' ci/venv $(VENV)

$(VENV)/tool: pyproject.toml $(VENV)/pip
	@ci/install $(VENV) . tool

$(VENV)/dev: pyproject.toml $(VENV)/pip
	@ci/install $(VENV) '.[dev]' tool dev

$(VENV)/build: pyproject.toml $(VENV)/pip | $(VENV)/tool
	@ci/install $(VENV) '.[build]' build

$(VENV)/plots: pyproject.toml $(VENV)/pip | $(VENV)/tool
	@ci/install $(VENV) '.[plots]' plots

.PHONY: patch
patch: $(VENV)/tool ## Set up switchml-patch and write the patch
	@$(BIN)/switchml-patch generate

.PHONY: demo
demo: ## Train a small network through a simulated switch; ARGS are more options of the demo
	@MAKE='$(MAKE)' PYTHON='$(PYTHON)' VENV='$(VENV)' ci/demo $(ARGS)

.PHONY: torch
torch: ## Make an environment with a current torch for CPU, and print its interpreter
	@PYTHON='$(PYTHON)' ci/torch

ENVIRONMENT ?= environment.yml
LOCK ?= conda-lock.yml
WORK ?= /var/tmp/switchml-patch/1.7.1
BUILDDIR ?= build

$(LOCK):
	@$(MAKE) --no-print-directory lock

.PHONY: lock
lock: $(VENV)/build ## Solve ENVIRONMENT (environment.yml) into LOCK (conda-lock.yml)
	@$(BIN)/switchml-patch env lock --file $(ENVIRONMENT) --output $(LOCK)

# With IMAGE=1 the tool and the Python are those of the image, where WORK is what each build calls it.
ifeq ($(IMAGE),1)
TOOL := WORK='$(WORK)' BUILDDIR='$(BUILDDIR)' ci/in-image switchml-patch
SIMULATOR := $(TOOL) simulator install -o
BUILD := $(TOOL) build --work /mnt/switchml-patch --python python3 --accept crash-at-exit
VERIFY := $(TOOL) verify --python python3
else
wheel simulator: $(VENV)/build $(LOCK)
verify: $(VENV)/build
SIMULATOR := PATH="$(abspath $(BIN)):$$PATH" LOCK=$(LOCK) WORK=$(WORK) ci/simulator
BUILD := $(BIN)/switchml-patch build --work $(WORK) --lock $(LOCK)
VERIFY := $(BIN)/switchml-patch verify --python $(WORK)/env/bin/python
endif

.PHONY: simulator
simulator: ## Install the simulator into SWITCHML_HOME, compiled as the wheel will be
	@$(SIMULATOR) "$${SWITCHML_HOME:?name the directory to install into}"

.PHONY: wheel
wheel: ## Build and verify a patched PyTorch, with IMAGE=1 in the image; ARGS are more options
	@$(BUILD) $(ARGS)

.PHONY: verify
verify: ## Verify the wheels in BUILDDIR with the interpreter that they were built for
	@for wheel in $(BUILDDIR)/torch-*.whl; do $(VERIFY) "$$wheel" || exit; done

.PHONY: image
image: ## Build an image that can build the wheel; IMAGE_ARGS are options of the engine
	@ci/image $(IMAGE_ARGS)

.PHONY: image-plugin
image-plugin: ## Build an image of a torch with the plugin; IMAGE_ARGS are options of the engine
	@IMAGE_FILE=ci/Containerfile.plugin IMAGE_TAG='$(or $(IMAGE_TAG),torch-switchml:2.13.0)' \
	  ci/image $(IMAGE_ARGS)

.PHONY: packages
packages: ## Install the system packages that the tests need (Debian, as root)
	@ci/packages

.PHONY: test
test: ## Install what the tests need, then lint and run all of them
	@MAKE='$(MAKE)' PYTHON='$(PYTHON)' VENV='$(VENV)' ci/test

.PHONY: lint
lint: $(VENV)/dev ## Check style and types only
	@PATH="$(abspath $(BIN)):$$PATH" ci/lint

.PHONY: test-pinned
test-pinned: $(VENV)/dev ## Test the patch in PyTorch PIN (1.7.1); PYTORCH_SOURCE names its checkout
	@PATH="$(abspath $(BIN)):$$PATH" ci/test-pinned

.PHONY: test-real
test-real: packages $(VENV)/dev ## Test with the real client library; SWITCHML_SOURCE names its checkout
	@PATH="$(abspath $(BIN)):$$PATH" ci/test-real

.PHONY: test-pythons
test-pythons: $(VENV)/dev ## Run the unit tests on each supported Python that is here
	@PATH="$(abspath $(BIN)):$$PATH" ci/test-pythons

.PHONY: test-pages
test-pages: packages $(VENV)/dev ## Run the commands of README.md and docs/ that take more than some seconds
	@PATH="$(abspath $(BIN)):$$PATH" ci/test-pages

.PHONY: test-channels
test-channels: $(VENV)/dev ## Solve the environment files on conda's public channels, and test the result
	@PATH="$(abspath $(BIN)):$$PATH" ci/test-channels

.PHONY: test-rebuild
test-rebuild: packages $(VENV)/dev ## Compile again as another user, without namespaces, with caches
	@PATH="$(abspath $(BIN)):$$PATH" ci/test-rebuild

.PHONY: test-image
test-image: packages $(VENV)/dev ## Test the image with buildah, on a Debian 11 of debootstrap; as root
	@PATH="$(abspath $(BIN)):$$PATH" ci/test-image

.PHONY: test-cluster
test-cluster: packages $(VENV)/dev ## Test with SLURM, MPI and torchrun over two hosts; as root
	@PATH="$(abspath $(BIN)):$$PATH" ci/test-cluster

.PHONY: chaos
chaos: packages $(VENV)/dev ## Disturb trainings by seeded events; ARGS are --lab, --seed N, --events N
	@PATH="$(abspath $(BIN)):$$PATH" ci/chaos $(ARGS)

.PHONY: bench
bench: packages $(VENV)/dev ## Print the benchmarks' ratios
	@PATH="$(abspath $(BIN)):$$PATH" ci/bench

.PHONY: bench-network
bench-network: packages $(VENV)/dev ## Time allreduces over slow links, which are simulated; as root
	@$(BIN)/python -m pytest -q -s -p no:cacheprovider tests/benchmarks/bench_network.py

.PHONY: docs
docs: $(VENV)/dev ## Write the pages that are made: reference, support, troubleshooting, grafana.json
	@for page in reference support troubleshooting; do \
	  $(BIN)/python -m docs.$$page > docs/$$page.md || exit; \
	done
	@$(BIN)/python docs/grafana.py > docs/grafana.json

.PHONY: clean
clean: ## Remove what make made, but not what was written to BUILDDIR
	rm -rf $(VENV) .cache *.egg-info .pytest_cache .mypy_cache .ruff_cache
