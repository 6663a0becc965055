# `make` lists the targets. Everything runs in .venv, which `make setup` builds.
PYTHON ?= python3
BIN := .venv/bin
SETUP := $(PYTHON) deploy/setup.py
UV_COMPILE := $(BIN)/uv pip compile --quiet --upgrade --python-version 3.11 \
	--python-platform x86_64-manylinux_2_28 --annotation-style line --custom-compile-command "make lock"

.DEFAULT_GOAL := help
.PHONY: help setup demo stop test check lock clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup: ## Build .venv from a bare machine; does nothing when nothing changed
	@$(SETUP) --extras cpu,demo,dev

demo: setup ## Start the service, ask questions about a real clip, leave it running
	$(BIN)/framegate demo

stop: ## Stop the service that `make demo` left running
	$(BIN)/framegate stop

test: setup ## Run the tests
	$(BIN)/pytest

check: setup ## Lint, format check, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy deploy
	$(BIN)/lint-imports

lock: ## Resolve the requirements*.lock files anew from pyproject.toml
	@$(SETUP) --extras dev --tools-only
	$(UV_COMPILE) --extra cpu --extra demo --extra dev --overrides requirements-overrides.txt \
		--output-file requirements.lock pyproject.toml
	$(UV_COMPILE) --extra gpu --extra demo --overrides requirements-gpu-overrides.txt \
		--output-file requirements-gpu.lock pyproject.toml

clean: ## Remove .venv, downloaded wheels and caches; keeps .framegate (videos, answers)
	rm -rf .venv .wheels build dist *.egg-info .coverage
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
