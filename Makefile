# `make demo` shows aiozarr at work, `make test` runs all tests and checks, and `make help` lists the other targets.
# Make and a Python from 3.11 to 3.14 are all that has to be installed: each target builds the environment it needs.

# The daily environment has the oldest supported Python, so newer features cannot slip in; `make PYTHON=...` chooses another.
PYTHON ?= $(shell scripts/find_python.sh oldest)
# The tests run with the newest one too: asyncio and the newest releases of other implementations differ there.
PYTHON_NEWEST ?= $(shell scripts/find_python.sh newest)
# Static checks side by side: the number of cores of the smallest machine that runs this.
JOBS ?= 2
# Test processes: two for each core, because many tests wait for servers, timers and other processes. `make test` runs both
# Pythons side by side, with half as many each: every process collects the tests of one Python only.
TEST_PROCESSES ?= 4

VENV := .venv
NEWEST := .venv-newest
PEERS := .venv-peers
SERVERS := .servers
BIN := $(VENV)/bin
PYTEST := -m scripts.run_tests -n $(TEST_PROCESSES) --dist worksteal -q
READY := .ready-1
# The newest Python leaves out what does not depend on the interpreter: stores of pure Python around other stores (each of
# those is tested in tests/unit on both), pages and benchmarks (text and command lines), the source's own structure, and
# stores of other implementations (tests/data has one of each kind, and is read by both), hostile input, and faults of disks.
OLDEST_ONLY := tests/contract/test_wrappers.py tests/contract/test_fsspec.py tests/contract/test_zip.py \
    tests/docs tests/benchmarks tests/test_architecture.py tests/test_vocabulary.py tests/test_names_in_prose.py \
    tests/interop/test_fixtures.py tests/fuzz tests/properties/test_killed_processes.py \
    tests/properties/test_durable_changes.py tests/properties/test_lasting_local_faults.py

.DEFAULT_GOAL := help
.PHONY: test-ecosystem help demo test static environments check check-format lint types mypy pyright contract docs docs-serve tests tests-newest test-servers test-peers test-long fuzz soak bench bench-stages dist format clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | while IFS="$$(printf '\t')" read -r name text; do printf '%-14s %s\n' "$$name" "$$text"; done

# --- environments ---------------------------------------------------------------------------------------------------

# $(1): the folder, $(2): the interpreter. pip is upgraded first: `--group` needs 25.1.
define environment
	@test -n "$(2)" || { echo "Python 3.11 to 3.14 was not found on PATH or below ~/.pyenv: name one with make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Building $(1) with $(2) ..."
	@rm -rf $(1)
	@$(2) -m venv $(1)
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[all]" --group dev
	@touch $(1)/$(READY)
endef

$(VENV)/$(READY): pyproject.toml
	$(call environment,$(VENV),$(PYTHON))

$(NEWEST)/$(READY): pyproject.toml
	$(call environment,$(NEWEST),$(PYTHON_NEWEST))

# --- the two commands ---------------------------------------------------------------------------------------------------

demo: $(VENV)/$(READY) ## read and copy a few hundred MiB from an embedded S3 server, and check every value; STORE=gs, az, local, memory: elsewhere
	@$(BIN)/python -m scripts.demo $(if $(STORE),--store $(STORE)) $(DEMO)

test: ## everything: the tests on the oldest and the newest Python, and all static checks
	@$(MAKE) --no-print-directory -j $(JOBS) environments
	@$(MAKE) --no-print-directory -j $(JOBS) --keep-going TEST_PROCESSES=2 tests tests-newest static

# One core each, so they run side by side; the tests themselves use all cores.
static: check-format lint mypy pyright contract docs

environments: $(VENV)/$(READY) $(if $(filter-out $(PYTHON),$(PYTHON_NEWEST)),$(NEWEST)/$(READY))

# --- the daily loop ------------------------------------------------------------------------------------------------------

check: check-format lint types contract tests docs ## format, lint, types, import contract, tests (with the documentation's snippets), documentation

check-format: $(VENV)/$(READY)
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format" >&2; exit 1; }

format: $(VENV)/$(READY) ## format the code, and apply the linter's fixes
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

lint: $(VENV)/$(READY) ## ruff
	@$(BIN)/ruff check .

types: mypy pyright ## mypy and pyright

mypy: $(VENV)/$(READY)
	@$(BIN)/mypy

pyright: $(VENV)/$(READY)
	@$(BIN)/pyright --pythonpath $(BIN)/python

contract: $(VENV)/$(READY) ## the import contract between the layers
	@$(BIN)/lint-imports --no-logo --no-cache

tests: $(VENV)/$(READY) ## all tests on the oldest Python; ARGS is passed to pytest
	@$(BIN)/python $(PYTEST) $(ARGS)

tests-newest: $(VENV)/$(READY)
	@if [ "$$($(BIN)/python -c 'import sys; print(sys.version_info[:2])')" = "$$($(PYTHON_NEWEST) -c 'import sys; print(sys.version_info[:2])')" ]; then \
	    echo "Only one suitable Python is installed ($(PYTHON_NEWEST)): the second run is skipped."; \
	else \
	    $(MAKE) --no-print-directory $(NEWEST)/$(READY) && $(NEWEST)/bin/python $(PYTEST) $(addprefix --ignore=,$(OLDEST_ONLY)) $(ARGS); \
	fi

test-servers: $(VENV)/$(READY) ## tests against real servers, with a table of the results; prints which servers are missing
	@scripts/make_servers.sh $(SERVERS) $(PYTHON)
	@scripts/servers_needed.sh $(SERVERS)
	@$(BIN)/python $(PYTEST) --servers --matrix -m "servers or contract" $(ARGS)

test-peers: $(VENV)/$(READY) ## every data type and codec exchanged with six other implementations; writes the documentation's table
	@scripts/make_peers.sh $(PEERS) $(PYTHON_NEWEST)
	@AIOZARR_PEERS=$(CURDIR)/$(PEERS) AIOZARR_WRITE_TABLE=1 $(BIN)/python -m pytest -q tests/interop/test_matrix.py $(ARGS)

test-ecosystem: ## suites of other projects, unchanged, over aiozarr: zarr-python's and xarray's; ARGS="zarr-array --world newest": some
	@$(PYTHON) -m scripts.ecosystem --oldest $(PYTHON) --newest $(PYTHON_NEWEST) $(ARGS)

# The seed is printed first, so a failure can be repeated.
test-long: $(VENV)/$(READY) ## properties, simulations, each fault at each call, fuzz targets and a soak; SEED=... repeats a run
	@seed="$(SEED)"; seed="$${seed:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}"; \
	echo "make test-long SEED=$$seed repeats this run"; \
	$(BIN)/python $(PYTEST) --hypothesis-profile long --hypothesis-seed="$$seed" tests/properties tests/faults/test_nth_failure.py tests/cancellation/test_interleavings.py $(ARGS) && \
	$(BIN)/python -m tests.fuzz --seconds 60 --seed "$$seed" && \
	$(BIN)/python -m benchmarks.soak --minutes 2 --seed "$$seed"

fuzz: $(VENV)/$(READY) ## mutated documents, bytes, responses and names, a minute for each target; SECONDS=, TARGET=, SEED= and N= choose
	@$(BIN)/python -m tests.fuzz --seconds "$(or $(SECONDS),60)" $(if $(TARGET),--target $(TARGET)) $(if $(SEED),--seed $(SEED)) $(if $(N),--number $(N))

soak: $(VENV)/$(READY) ## readers, writers and copies with faults: memory and descriptors stay flat, no value is wrong; MINUTES=480: a night
	@$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),2) $(ARGS)

docs: $(VENV)/$(READY) ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(VENV)/$(READY) ## the documentation on http://127.0.0.1:8000, rebuilt as it is written
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

bench: $(VENV)/$(READY) ## compare with other readers, over a local server with latency; BENCH="--quick" takes two minutes, see BENCH="--help"
	@scripts/make_bench_peers.sh $(PEERS)/bench $(PYTHON_NEWEST)
	@$(BIN)/python -m benchmarks.compare --peers-python $(PEERS)/bench/bin/python $(BENCH)

bench-stages: $(VENV)/$(READY) ## the cost of each stage of a read, growth curves, and memory; QUICK=1: shorter
	@$(BIN)/python -m benchmarks.stages $(if $(QUICK),--quick)
	@$(BIN)/python -m benchmarks.growth $(if $(QUICK),--quick) $(if $(FIGURES),--folder $(FIGURES))
	@$(BIN)/python -m benchmarks.memory $(if $(QUICK),--size 64MiB)
	@$(BIN)/python -m benchmarks.rechunk $(if $(QUICK),--size 256MiB)
	@$(BIN)/python -m benchmarks.xarray_opening $(if $(QUICK),--rounds 2)
	@$(BIN)/python -m benchmarks.nodes $(if $(QUICK),--rounds 2 --nodes 500)

dist: $(VENV)/$(READY) ## sdist and wheel into dist/
	@$(BIN)/python -m build --quiet

clean: ## remove environments, caches and everything built
	rm -rf .venv .venv-newest .venv-peers .servers .ecosystem .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache fuzz-findings dist build site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
