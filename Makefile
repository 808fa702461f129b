# Everything a newcomer types. Each target sets up what it needs: a .venv with the exact versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test types test-slow test-gpu readme bench clean

demo: $(READY)
	$(BIN)/unbraid demo

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/unbraid readme --check
	$(BIN)/python -m pytest -n auto --maxprocesses 4

types: $(READY)
	$(BIN)/pyright

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

test-gpu: $(READY)
	$(BIN)/python -m pytest -m gpu

readme: $(READY)
	$(BIN)/unbraid readme

bench: $(READY)
	$(BIN)/python benchmarks/cpu_training.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .ruff_cache

# torch is installed alone and first: a looser requirement could pull a build with gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Unbraid needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)
