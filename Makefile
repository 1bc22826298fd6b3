# `make` alone lists the targets. Everything a target needs it sets up itself (tools/setup).
.DEFAULT_GOAL := help
BIN := .venv/bin
SUITE := $(BIN)/python -m tools.suite

.PHONY: help setup lint format types test test-fast soak fuzz demo demo-down bench drawings build clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what development and the tests need; for the demo, `make demo` does
	@tools/setup || [ $$? -eq 3 ] # 3: some things need root; each was named

lint: ## style, formatting, and who may import whom
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

format: ## let ruff mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: ## mypy --strict
	$(BIN)/mypy

test: setup lint types ## everything, on a real Slurm of several nodes
	$(SUITE)

test-fast: ## the tests that need no Slurm
	$(SUITE) -m "not slurm"

soak: setup ## what takes long: hundreds of deaths, thousands of histories; ORLOP_SOAK=10 for more
	$(BIN)/pytest -o python_files='soak_*.py' -n 2 -v tests/soak

fuzz: setup ## a million inputs for every parser that strangers reach, a part of soak; ORLOP_SOAK=0.01 for less
	$(BIN)/pytest -o python_files='soak_fuzz.py' -n 2 -v tests/soak

demo: ## a Slurm of several nodes, Orlop on it, and the examples, with a commentary
	@tools/setup demo || [ $$? -eq 3 ]
	@$(BIN)/python -m tools.demo up

demo-down: ## remove all that the demo started
	@$(BIN)/python -m tools.demo down

bench: setup ## the API server, the controllers, and pod start beside plain sbatch and srun, in tables
	$(BIN)/python -m benchmarks

drawings: ## docs/explanation/drawings, of their texts; needs graphviz
	@$(BIN)/python -m tools.drawings

build: ## the wheel
	$(BIN)/python -m tools build

clean: ## remove what is made by building and testing, but not the environment
	rm -rf dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
