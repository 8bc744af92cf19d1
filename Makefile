# Every target sets up what it needs; a fresh machine wants only Python (3.10 or newer) and make.
#   make demo    run examples/quickstart.ipynb through a real kernel and print what it shows
#   make test    the whole suite           make test-fast   without what is marked slow
#   make lint    style and strict types    make format      put style right
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= auto

.PHONY: demo test test-fast lint format lab clean

demo: $(VENV)/ready-test
	$(BIN)/python tools/run_notebook.py examples/quickstart.ipynb

test: $(VENV)/ready-test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-fast: $(VENV)/ready-test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

lint: $(VENV)/ready-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/ready-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lab: $(VENV)/ready-test
	$(BIN)/python -m pip install --quiet jupyterlab
	$(BIN)/jupyter lab examples

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A group of dependencies is installed again when pyproject.toml changes; pip older than 25.1 has no --group.
$(VENV)/ready-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group $*
	@touch $@

.PRECIOUS: $(VENV)/ready-%
