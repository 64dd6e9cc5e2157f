# Each target works as the first command after a clone: it makes .venv from requirements.lock when
# that is missing or out of date. Another interpreter beside it:
#   make test PYTHON=python3.13 VENV=.venv-3.13

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Processes that run tests, and more arguments for pytest: make test ARGS="tests/unit -x"
JOBS ?= 2
ARGS ?=
ONLY ?=
# Not docs/: its examples are laid out for readers.
TREES := src tests bench tools examples
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.PHONY: help demo test test-slow check format lock bench schemas environment

help:
	@echo 'make demo       see what Rote does, in a minute'
	@echo 'make test       run the tests            (ARGS="tests/unit -x" JOBS=2)'
	@echo 'make test-slow  run them with the full counts'
	@echo 'make check      format, lint, types, import layers, size caps'
	@echo 'make format     format the code and mend what lint can mend'
	@echo 'make bench      measure against the raw engine   (ONLY=commit for one)'
	@echo 'make schemas    write docs/schemas/ anew from the code'
	@echo 'make lock       make requirements.lock anew      (UPGRADE=1 for newer versions)'

environment:
	@$(PYTHON) tools/environment.py $(VENV)

demo: environment
	@$(BIN)/rote demo

test: environment
	@$(PYTEST) $(ARGS)

test-slow: environment
	@ROTE_SLOW=1 $(PYTEST) -o faulthandler_timeout=3600 $(ARGS)

check: environment
	@$(BIN)/python -m tools.check

format: environment
	@$(BIN)/ruff check --fix-only --quiet $(TREES)
	@$(BIN)/ruff format --quiet $(TREES)

bench: environment
	@$(BIN)/python -m bench $(ONLY)

schemas: environment
	@$(BIN)/python -m tools.schemas

# Pins stay as they are where they still fit, unless UPGRADE=1. No index address is written: that
# would have to be asked for, and `make check` looks.
lock: environment
	@$(BIN)/uv pip compile pyproject.toml --all-extras --group dev \
	  --universal --python-version 3.11 --generate-hashes --quiet \
	  --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade) \
	  --output-file requirements.lock
	@echo 'requirements.lock is made; the next make installs it'
