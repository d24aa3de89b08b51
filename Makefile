# The first use of any target builds .venv from requirements.lock.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
BIN    := $(abspath $(VENV))/bin
STAMP  := $(VENV)/.complete
# Stage commands say `python`, so the environment leads PATH.
export PATH := $(BIN):$(PATH)
# uv does not read pip's setting.
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
export DO_NOT_TRACK := 1
# The tests of a file share what is costly to build, so they stay together.
PARALLEL := -n logical --maxprocesses 4
BY_FILE  := --dist loadfile --no-loadscope-reorder

.PHONY: help setup ablation smoke up down test test-all check chaos bench docs real-clip real-vocabulary

help:  ## list the targets
	@sed -nE 's/^([a-z-]+):.*  ## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "make %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## build .venv from requirements.lock
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("error: Python 3.11 or newer is needed; name one with PYTHON=...")'
# Every stage is a process of its own: compiled once here, where PYTHONDONTWRITEBYTECODE may keep Python from it later.
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check uv==0.13.9 \
		&& $(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python -r requirements.lock \
		|| $(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
# `dvc plots show` draws with it, so that it needs no network (.dvc/plots.html).
	mkdir -p .cache
	$(BIN)/python -c 'import vl_convert as v; print(v.javascript_bundle("window.vegaEmbed = vegaEmbed;"))' > .cache/vega.js
	touch $@

ablation: $(STAMP)  ## run the whole experiment through Prefect and print the table
	@$(BIN)/python scripts/stack.py ablation

smoke: $(STAMP)  ## the same with two arms and one seed, in a scratch copy
	@$(BIN)/python scripts/stack.py smoke

up: $(STAMP)  ## start Prefect's server, a worker and the MLflow UI on 127.0.0.1
	@$(BIN)/python scripts/stack.py up

down: $(STAMP)  ## stop what `make up` started
	@$(BIN)/python scripts/stack.py down

test: check  ## check, and all tests that are quick
	$(BIN)/python -m pytest $(PARALLEL) $(BY_FILE)

test-all: check  ## check, and all tests
	$(BIN)/python -m pytest -m "" $(PARALLEL) $(BY_FILE)

check: $(STAMP)  ## lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

chaos: $(STAMP)  ## kill, fill, starve and feed junk to the real thing (tests/reliability), and print what was lost
	$(BIN)/python -m pytest -m "" $(PARALLEL) --dist worksteal tests/reliability

bench: $(STAMP)  ## measure speed (perf/)
	$(BIN)/python -m perf.bench

docs: $(STAMP)  ## build the documents as a site, in site/
	$(BIN)/mkdocs build --strict --quiet
	@echo site/index.html

real-clip: $(STAMP)  ## fetch the natural clip that one test streams (58 MB, through pip)
	$(BIN)/python scripts/real_clip.py

real-vocabulary: $(STAMP)  ## fetch Qwen's whole vocabulary for one test (2.4 MB, through pip)
	$(BIN)/python -m pip download -q --disable-pip-version-check --no-deps -d .cache dashscope==2.0.2
