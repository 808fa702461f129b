# What a contributor types. Each target first sets up .venv with the exact versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

MINUTES ?= 10
# Tests that wait for a process or a page leave a core to others: one more than there are, to 4.
WORKERS ?= $(shell $(PYTHON) -c "import os; print(min(4, 1 + (os.cpu_count() or 1)))")

# Without bytecode each of the hundreds of processes that tests start would compile the package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test docs types test-slow test-gpu fuzz bench clean

# Trains, scores and reports a small population in a few minutes on a CPU.
demo: $(READY)
	$(BIN)/unbraid demo

# What must pass before a commit: lint, format, generated docs, tests.
test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tools.docs --check
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# Writes the generated parts of README and docs; with CHECK=1 only names what is stale.
docs: $(READY)
	$(BIN)/python -m tools.docs $(if $(CHECK),--check)

types: $(READY)
	$(BIN)/pyright

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

test-gpu: $(READY)
	$(BIN)/python -m pytest -m gpu

# Looks for inputs that parsers, readers or commands do not take as they should, guided by coverage
# (atheris, Linux): MINUTES in all, TARGETS by name. Its corpus and findings lie in tests/fuzz.
fuzz: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[fuzz]'
	$(BIN)/python -m tests.fuzz.long --minutes $(MINUTES) $(TARGETS)

# Training speed on this CPU; benchmarks/ has the others.
bench: $(READY)
	$(BIN)/python benchmarks/cpu_training.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .ruff_cache

# torch is installed alone and first: a looser requirement could pull a build with gigabytes of CUDA.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Unbraid needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 ...") if sys.version_info < (3, 11) else None'
	@echo "Installing into $(VENV), torch first: a few minutes."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(READY)
