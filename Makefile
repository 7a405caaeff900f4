# `make demo` shows aiozarr at work, `make test` runs all tests and checks, and `make help` lists the other targets.
# Make and a Python from 3.11 to 3.14 are all that has to be installed: each target builds the environment it needs.

# The daily environment has the oldest supported Python, so newer features cannot slip in; `make PYTHON=...` chooses another.
PYTHON ?= $(shell scripts/find_python.sh oldest)
# The tests run with the newest one too: asyncio and the newest releases of other implementations differ there.
PYTHON_NEWEST ?= $(shell scripts/find_python.sh newest)
# Static checks side by side: the number of cores of the smallest machine that runs this.
JOBS ?= 2
# Test processes: two for each core, because many tests wait for servers, timers and other processes. `make test` runs both
# Pythons side by side, and divides the processes as it divides the tests: every process collects those of one Python only.
TEST_PROCESSES ?= 4
NEWEST_PROCESSES ?= $(TEST_PROCESSES)

VENV := .venv
NEWEST := .venv-newest
PEERS := .venv-peers
SERVERS := .servers
BIN := $(VENV)/bin
PYTEST := -m scripts.run_tests --dist worksteal -q
READY := .ready-1
# The newest Python runs what depends on the interpreter, asyncio, the C API or the releases of numpy, zarr-python and
# xarray that it gets: engine, HTTP client, memory, threads, processes, exits, cancellation, one contract of each kind of
# store, and integrations. It leaves out the logic of Python that is the same everywhere:
# documents, geometry, options, commands and pages,
OLDEST_ONLY := tests/docs tests/benchmarks tests/cli tests/fuzz \
    $(addprefix tests/test_,architecture.py vocabulary.py names_in_prose.py public_names.py twins.py ecosystem.py run_tests.py) \
    $(addprefix tests/unit/,cli conversion driver grid hierarchy metadata support transfer) \
    $(addprefix tests/unit/codecs/,core numcodecs pipeline v2) \
    tests/interop/test_codec_fixtures.py tests/interop/test_data.py tests/interop/test_fixtures.py
# stores above the same HTTP client or around other stores,
OLDEST_ONLY += $(addprefix tests/contract/test_,azure.py fsspec.py gcs.py lying_servers.py obspec.py s3.py wrappers.py zip.py) \
    $(addprefix tests/unit/stores/,azure fsspec gcs object obspec options s3 wrappers zip test_node_urls.py)
# and faults of servers and disks, and searches by random examples. Those that compare with numpy, zarr-python and xarray stay.
OLDEST_ONLY += $(addprefix tests/faults/test_,changes.py clipped_ranges.py echoes.py hostile.py nth_failure.py oversized.py \
        reports.py responses.py secrets.py) \
    $(addprefix tests/integration/test_,links.py many_objects.py tiles_example.py wide_area.py) \
    $(addprefix tests/properties/test_,casting.py conversions.py differing_chunks.py durable_changes.py formats.py \
        formats_of_peers.py indexing.py killed_processes.py lasting_local_faults.py tensor_views.py tensorstore.py \
        tensorstore_specs.py tree_model.py)

# What to run while working, in less than 90 seconds on two cores: the pure parts, the contract over memory and a folder,
# reads and writes compared with numpy's, imports and names.
QUICK := $(wildcard tests/unit/test_*.py) $(addprefix tests/unit/,codecs common grid metadata schedule) \
    $(addprefix tests/contract/test_,memory.py local.py) tests/properties/test_numpy.py \
    $(addprefix tests/test_,architecture.py import.py names_in_prose.py public_names.py twins.py vocabulary.py)

# Every test process and every program that a test starts would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: test-ecosystem help demo test test-quick coverage static environments check check-format lint types mypy pyright contract docs docs-serve tests tests-newest test-servers test-peers test-long fuzz soak bench bench-stages dist format clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | while IFS="$$(printf '\t')" read -r name text; do printf '%-14s %s\n' "$$name" "$$text"; done

# --- environments ---------------------------------------------------------------------------------------------------

# $(1): the folder, $(2): the interpreter, $(3): the dependency group. pip is upgraded first: `--group` needs 25.1. Half of
# pip's time is the compilation of modules, most of which nothing imports: the tests of other projects, and moto's services.
define environment
	@test -n "$(2)" || { echo "no Python from 3.11 to 3.14 on PATH or below ~/.pyenv; name one with make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Building $(1) with $(2) ..."
	@rm -rf $(1)
	@$(2) -m venv $(1)
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable ".[all]" --group $(3)
	@$(1)/bin/python -m compileall -q -x '/(tests|moto)/' $(1)/lib > /dev/null || true  # some packages ship templates
	@touch $(1)/$(READY)
endef

$(VENV)/$(READY): pyproject.toml
	$(call environment,$(VENV),$(PYTHON),dev)

# The static checks and the documentation's generator run on the oldest Python alone.
$(NEWEST)/$(READY): pyproject.toml
	$(call environment,$(NEWEST),$(PYTHON_NEWEST),test)

# --- the two commands ---------------------------------------------------------------------------------------------------

# The demo needs an S3 server and little else. The daily environment has it; without one, a small environment is built.
DEMO_ENVIRONMENT := $(if $(wildcard $(VENV)/$(READY)),$(VENV),.venv-demo)
demo: $(DEMO_ENVIRONMENT)/$(READY) ## read and copy a few hundred MiB from an embedded S3 server, and check every value; STORE=gs, az, local, memory: elsewhere
	@$(DEMO_ENVIRONMENT)/bin/python -m scripts.demo $(if $(STORE),--store $(STORE)) $(DEMO)

.venv-demo/$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python from 3.11 to 3.14 on PATH or below ~/.pyenv; name one with make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Building .venv-demo with $(PYTHON): aiozarr, moto (an S3 server) and rich, about half a minute ..."
	@rm -rf .venv-demo
	@$(PYTHON) -m venv .venv-demo
	@.venv-demo/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@.venv-demo/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable . --group demo
	@touch $@

test: ## everything: the tests on the oldest and the newest Python, and all static checks
	@$(MAKE) --no-print-directory -j $(JOBS) environments
	@$(MAKE) --no-print-directory -j $(JOBS) --keep-going TEST_PROCESSES=3 NEWEST_PROCESSES=1 tests tests-newest static

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
	@$(BIN)/python $(PYTEST) -n $(TEST_PROCESSES) $(ARGS)

test-quick: $(VENV)/$(READY) ## the pure parts, reads and writes, one contract, imports and names, in a minute: while working
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q $(QUICK) $(ARGS)

tests-newest: $(VENV)/$(READY)
	@if [ "$$($(BIN)/python -c 'import sys; print(sys.version_info[:2])')" = "$$($(PYTHON_NEWEST) -c 'import sys; print(sys.version_info[:2])')" ]; then \
	    echo "Only one suitable Python is installed ($(PYTHON_NEWEST)): the second run is skipped."; \
	else \
	    $(MAKE) --no-print-directory $(NEWEST)/$(READY) && $(NEWEST)/bin/python $(PYTEST) -n $(NEWEST_PROCESSES) $(addprefix --ignore=,$(OLDEST_ONLY)) $(ARGS); \
	fi

coverage: $(VENV)/$(READY) ## the branch coverage of each package, which no check asks for; ARGS is passed to pytest
	@rm -f .coverage .coverage.*
	-@$(BIN)/python -m coverage run -m pytest -n $(TEST_PROCESSES) --dist worksteal -q $(ARGS)
	@$(BIN)/python -m scripts.coverage_table

test-servers: $(VENV)/$(READY) ## tests against real servers, with a table of the results; prints which servers are missing
	@scripts/make_servers.sh $(SERVERS) $(PYTHON)
	@scripts/servers_needed.sh $(SERVERS)
	@$(BIN)/python $(PYTEST) -n $(TEST_PROCESSES) --servers --matrix -m "servers or contract" $(ARGS)

test-peers: $(VENV)/$(READY) ## every data type and codec exchanged with six other implementations; writes the documentation's table
	@scripts/make_peers.sh $(PEERS) $(PYTHON_NEWEST)
	@AIOZARR_PEERS=$(CURDIR)/$(PEERS) AIOZARR_WRITE_TABLE=1 $(BIN)/python -m pytest -q tests/interop/test_matrix.py $(ARGS)

test-ecosystem: ## suites of other projects, unchanged, over aiozarr: zarr-python's and xarray's; ARGS="zarr-array --world newest": some
	@$(PYTHON) -m scripts.ecosystem --oldest $(PYTHON) --newest $(PYTHON_NEWEST) $(ARGS)

# The seed is printed first, so a failure can be repeated.
test-long: $(VENV)/$(READY) ## properties, simulations, each fault at each call, fuzz targets and a soak; SEED=... repeats a run
	@seed="$(SEED)"; seed="$${seed:-$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}"; \
	echo "make test-long SEED=$$seed repeats this run"; \
	$(BIN)/python $(PYTEST) -n $(TEST_PROCESSES) --hypothesis-profile long --hypothesis-seed="$$seed" tests/properties tests/faults/test_nth_failure.py tests/cancellation/test_interleavings.py tests/interop/test_zarr_store.py $(ARGS) && \
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

# Without BENCH all of it runs, and the figures go to docs/figures.json and from there to README and the documentation.
COMPARE := -m benchmarks.compare --peers-python $(PEERS)/bench/bin/python
FIGURES_FILE := --figures docs/figures.json
bench: $(VENV)/$(READY) ## compare with other readers, over a local server with latency; BENCH="--quick" takes two minutes, see BENCH="--help"
	@scripts/make_bench_peers.sh $(PEERS)/bench $(PYTHON_NEWEST)
ifdef BENCH
	@$(BIN)/python $(COMPARE) $(BENCH)
else
	@$(BIN)/python $(COMPARE) $(FIGURES_FILE)
	@$(BIN)/python $(COMPARE) $(FIGURES_FILE) --scenarios service
	@$(BIN)/python $(COMPARE) $(FIGURES_FILE) --scenarios medium,small,shard-plane --me zarr-aiozarr --peers zarr-python,zarr-python@128
	@$(BIN)/python -m benchmarks.many $(FIGURES_FILE) --peers-python $(PEERS)/bench/bin/python
	@$(BIN)/python -m benchmarks.tiles $(FIGURES_FILE)
	@$(BIN)/python -m benchmarks.memory $(FIGURES_FILE) --size 128MiB
	@$(BIN)/python -m benchmarks.rechunk $(FIGURES_FILE) --rounds 2
	@$(BIN)/python -m scripts.make_figures
endif

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
	rm -rf .venv .venv-newest .venv-demo .venv-peers .servers .ecosystem .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.* fuzz-findings dist build site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
