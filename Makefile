# `make demo` and `make test` do their own set-up: Python 3.11 or newer and make are enough.
# uv is used when present, venv and pip otherwise; `make demo UV=` keeps uv out, `make test PYTHON=python3.13` picks an interpreter.

BIN := .venv/bin
PY := $(BIN)/python
PYTEST := $(PY) -m pytest -q
COMPILE := uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links

.PHONY: help demo demo-local test test-long test-real bench lint lock clean ruff environment-run environment-dev

help: ## show this list
	@awk -F ': .*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: environment-run ## a request answered by the real engine, verified, tampered with, and each tampering caught
	@$(BIN)/hansard demo

demo-local: environment-dev ## the same with a real small model on this machine (fetched once; takes minutes)
	@PYTHONPATH="$$(PYTHONPATH=src:tests $(PY) -c 'from providers.small_model import weights; print(weights().parents[1])')" \
		$(BIN)/hansard demo --local

test: ruff ## ruff, mypy --strict and every quick test, with branch coverage and its floor
	@$(PY) tests/side_by_side.py
	@$(PY) -m coverage combine -q
	@$(PY) -m coverage report

test-long: environment-dev ## the tests that take minutes
	@$(PYTEST) -m long

test-real: environment-dev ## the tests that ask real models and drive real agent CLIs
	@$(PYTEST) -m "real_model or real_cli"

bench: environment-dev ## the measurements beside a peer (ONLY=append for one section, BENCH=--quick for options)
	@$(PY) -m bench $(ONLY) $(BENCH)

lint: ruff ## ruff, and mypy --strict on src and tests
	@printf '%-13s' mypy && $(PY) -m mypy

ruff: environment-dev
	@printf '%-13s' ruff && $(PY) -m ruff check .

lock: ## pin requirements/ anew, with hashes and without hosts (needs uv; LOCK=--upgrade moves every pin)
	@$(COMPILE) --extra dev $(LOCK) --output-file requirements/dev.txt
	@$(COMPILE) --extra all --constraints requirements/dev.txt $(LOCK) --output-file requirements/run.txt

clean: ## remove the environment, build products and caches
	@rm -rf .venv build dist .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

environment-run:
	@tools/environment run

environment-dev:
	@tools/environment dev
