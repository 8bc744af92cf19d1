# Every target sets up what it needs; a fresh machine wants only Python (3.10 or newer) and make.
#   make demo    run examples/quickstart.ipynb through a real kernel and print what it shows
#   make test    the whole suite           make test-fast   without what is marked slow
#   make stress  the cache under abuse, in full: 8 processes, 200 compilations each, kills and damage
#   make bench   speeds beside other libraries: a table, bench.json, bench.md
#   make test-browser   JupyterLab in Chromium, light and dark; pictures of it in screenshots/
#   make docs    the documentation, in site/; strict
#   make lint    style and strict types    make format      put style right
#   make oracle  real Relay judges programs, texts, types and numbers; wants a Python 3.10 for x86-64 Linux, too
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= auto

CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

# Where TVM's last wheel with Relay is installed. It is called tvm, too: it cannot share an environment with the
# TVM that nnmagic runs on.
ORACLE := $(VENV)/oracle
FITS   := import platform, sys; sys.exit((sys.version_info[:2], sys.platform, platform.machine()) != ((3, 10), "linux", "x86_64"))
ORACLE_PYTHON ?= $(shell for python in python3.10 "$$HOME"/.pyenv/versions/3.10.*/bin/python; do \
	"$$python" -c '$(FITS)' 2>/dev/null && { echo "$$python"; break; }; done)

.PHONY: demo bench docs stress test test-browser test-fast lint format lab oracle oracle-python clean

demo: $(VENV)/ready-test
	$(BIN)/python tools/run_notebook.py examples/quickstart.ipynb

test: $(VENV)/ready-test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-fast: $(VENV)/ready-test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

stress: $(VENV)/ready-test
	NNMAGIC_STRESS=1 $(BIN)/python -m pytest -s tests/cache/test_stress.py

test-browser: $(VENV)/ready-browser
	@test -n "$(CHROMIUM)" || { echo "no Chromium was found: CHROMIUM=... names one" >&2; exit 1; }
	NNMAGIC_BROWSER="$(CHROMIUM)" $(BIN)/python -m pytest tests/browser

docs: $(VENV)/ready-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# One table of speeds beside NumPy, onnxruntime, torch, jax and numba; nothing else should run meanwhile.
bench: $(VENV)/ready-bench
	$(BIN)/python -m benchmarks --json bench.json --markdown bench.md $(BENCH)

oracle: $(VENV)/ready-test $(ORACLE)/ready
	$(ORACLE)/bin/python -m pytest tests/engine/test_legacy_relay.py
	NNMAGIC_ORACLE="$(abspath $(ORACLE))/bin/python" $(BIN)/python -m pytest tests/oracle -n $(JOBS) --dist worksteal

# Succeeds where `make oracle` can.
oracle-python:
	@test -n "$(ORACLE_PYTHON)" || { echo "no working Python 3.10 for x86-64 Linux was found: ORACLE_PYTHON=... names one" >&2; exit 1; }

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
	rm -rf $(VENV) dist build site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A group of dependencies is installed again when pyproject.toml changes; pip older than 25.1 has no --group.
$(VENV)/ready-%: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group $*
	@touch $@

$(ORACLE)/ready: pyproject.toml | oracle-python
	@test -x $(ORACLE)/bin/python || $(ORACLE_PYTHON) -m venv $(ORACLE)
	$(ORACLE)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	$(ORACLE)/bin/python -m pip install --quiet --disable-pip-version-check --group relay
	$(ORACLE)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

.PRECIOUS: $(VENV)/ready-%
