.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
INSTALLED_BENCH := $(VENV)/.installed-bench
# Says what it installs, line by line; what is there already is not worth one. Python compiles what it imports, a fifth of it.
PIP_INSTALL = @echo "Installing Rainbow into $(VENV), which may take a minute or two."; set -o pipefail; \
  PYTHONUNBUFFERED=1 $(BIN)/pip install --disable-pip-version-check --progress-bar off --no-compile --editable
SAY_STEPS := | { grep --line-buffered -E '^ *(Collecting|Installing)' || true; }
RUN_DIR := .rainbow
RUN_PORT := 8088

# What is slow in them, and all of tests/robustness, has a target of its own.
TESTS := tests/unit tests/integration tests/acceptance tests/console

.PHONY: help setup run test pytest test-robustness test-kubernetes test-flux test-large check facts docs bench bench-large clean screenshots

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

# Debian ships venv apart from python3: where it is missing and we may, install it; else say how.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Rainbow needs Python 3.11 or newer; set PYTHON=..."'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null; \
	  else echo "Python's venv module is missing: run 'sudo apt-get install python3-venv', then again." >&2; exit 1; fi; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(VENV)/bin/python setup.cfg pyproject.toml
	$(PIP_INSTALL) '.[postgres,redis,kubernetes]' $(SAY_STEPS)
	@touch $@

$(INSTALLED_DEV): $(INSTALLED)
	$(PIP_INSTALL) '.[postgres,redis,kubernetes,dev]' $(SAY_STEPS)
	@touch $@

$(INSTALLED_BENCH): $(INSTALLED_DEV)
	$(PIP_INSTALL) '.[postgres,redis,kubernetes,dev,bench]' $(SAY_STEPS)
	@touch $@

setup: $(INSTALLED_DEV) ## Install everything for development into .venv

run: $(INSTALLED) ## Start the admin on embedded SQLite and the agent of this machine, and say what to try next
	@$(BIN)/python -m scripts.run_local --directory $(RUN_DIR) --port $(RUN_PORT)

check: $(INSTALLED_DEV) ## Lint, check types and spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

# Tests start many processes, which need not compile again; and many of them wait, so that four keep two cores busy.
test test-robustness test-kubernetes test-flux test-large: export PYTHONDONTWRITEBYTECODE :=
test: $(INSTALLED_DEV) ## Install what the tests need, start it, run the tests, and check beside them
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/install-servers
	@$(MAKE) --no-print-directory --jobs 2 check pytest

# On a new checkout one process compiles the tests while mypy has the other core: four would compile each of them anew.
pytest: $(INSTALLED_DEV)
	@[ -d .hypothesis/constants ] || $(BIN)/pytest --quiet --collect-only >/dev/null || true
	$(BIN)/pytest -n 4 --dist worksteal -m 'not slow' $(TESTS)

test-robustness: $(INSTALLED_DEV) ## Run the slow tests: faults, races, generated and hostile input, whole stories
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/install-servers
	$(BIN)/pytest -n 4 --dist worksteal -m slow tests/robustness tests/acceptance tests/integration tests/console

test-kubernetes: $(INSTALLED_DEV) ## Build a Kubernetes once, start it, and run the tests that need one
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/kubernetes/build-server >/dev/null
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/kubernetes/build-kubectl >/dev/null
	@[ "$$(id -u)" != 0 ] || tests/kubernetes/fetch-node >/dev/null
	$(BIN)/pytest tests/kubernetes

test-flux: $(INSTALLED_DEV) ## Run the tests of the Flux engine, where flux is on the PATH
	$(BIN)/pytest tests/flux

test-large: $(INSTALLED_DEV) ## Run the tests that the others run reduced at their full size
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/install-servers
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/kubernetes/build-server >/dev/null
	@PATH="$(CURDIR)/$(BIN):$$PATH" tests/kubernetes/build-kubectl >/dev/null
	@[ "$$(id -u)" != 0 ] || tests/kubernetes/fetch-node >/dev/null
	$(BIN)/pytest -n 2 --dist worksteal --large --ignore tests/kubernetes
	$(BIN)/pytest --large tests/kubernetes

facts: $(INSTALLED_DEV) ## Write what ctl knows of the admin anew: kinds, phases, selectors, schemas
	$(BIN)/python -m scripts.client_facts

docs: $(INSTALLED_DEV) ## Write the command reference, docs/rainbowctl/, anew
	$(BIN)/python -m scripts.ctl_reference

screenshots: $(INSTALLED_DEV) ## Take the pictures of the console in docs/ anew
	@tests/install-servers chromium
	$(BIN)/python -m tests.console.screenshots

bench: $(INSTALLED_DEV) ## Measure on both databases beside ceilings and peers, in half an hour
	@tests/install-servers postgresql redis wrk
	$(BIN)/python -m bench

bench-large: $(INSTALLED_BENCH) ## Measure what takes long: growth, memory and a thousand waiting agents
	@tests/install-servers postgresql wrk
	$(BIN)/python -m bench --large
	$(BIN)/python -m bench.report

clean: ## Remove what make made, the embedded database included
	rm -rf $(VENV) $(RUN_DIR) .bench build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache \
	  tests/support/openid_provider/node_modules
