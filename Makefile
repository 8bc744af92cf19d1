# A fresh machine wants only Python (3.10 or newer) and make. Every target is a session of noxfile.py, which sets up
# what it needs in an environment of its own and keeps it in .nox.
#   make demo    run examples/quickstart.ipynb through a real kernel and print what it shows
#   make test    what nnmagic promises, in five minutes
#   make test-full   every case: all samples, notebooks, kernels, random programs, ONNX's own tests; half an hour;
#                    ONLY=--without-default leaves out what `make test` asks in the same way,
#                    ONLY=--part=0/4 makes a quarter of the cases alone
#   make test-oldest  the tests of functions on Python 3.10
#   make test-torch   the import of PyTorch programs, with torch
#   make stress  the cache under abuse, in full: 8 processes, 200 compilations each, kills and damage
#   make bench   speeds beside other libraries: a table, bench.json, bench.md; BENCH="--only softmax" for a part
#   make cookbook   the recipes of the documentation and the tasks of examples/cookbook beside NumPy, numba and torch;
#                   fails where one is slower
#   make fuzz    random programs, judged for FUZZ_SECONDS (an hour), from the seed FUZZ_FIRST on
#   make test-browser   JupyterLab in Chromium, light and dark; pictures of it in screenshots/
#   make test-array-api   the array API standard's conformance suite; ARRAY_API_TESTS=PATH names a checkout of it
#   make test-tools   nbconvert, papermill, Jupyter console, marimo, an ipyparallel cluster, an editor, pandas, Sphinx
#   make test-runtime   nnmagic-runtime, built and installed alone with NumPy
#   make windows tests in a Python for Windows under Wine; wants Debian's wine64 and gcc-mingw-w64-x86-64
#   make docs    the documentation, in site/; strict
#   make lint    style and strict types    make format      put style right
#   make lab     the examples in JupyterLab
#   make oracle  real Relay judges programs, texts, types and numbers; wants a Python 3.10 for x86-64 Linux, too
#   make clean   remove all that these have made
PYTHON ?= python3
NOX    := .nox/nox/bin/nox
# noxfile.py reads these: how many tests run at once, the browser, options of `make bench`, the Python of real
# Relay, how long a search lasts and its first seed.
export JOBS ARRAY_API_TESTS CHROMIUM BENCH ORACLE_PYTHON FUZZ_SECONDS FUZZ_FIRST

.PHONY: demo test test-array-api test-torch test-tools test-runtime test-oldest test-full stress test-browser windows docs lint format bench cookbook fuzz lab oracle oracle-python clean

demo test test-array-api test-torch test-tools test-runtime test-oldest windows docs lint format bench cookbook fuzz lab oracle oracle-python: | $(NOX)
	$(NOX) --session $@

test-full: | $(NOX)
	$(NOX) --session test -- --full $(ONLY)

stress: | $(NOX)
	NNMAGIC_STRESS=1 $(NOX) --session test -- --full -n 0 -s tests/cache/test_stress.py

test-browser: | $(NOX)
	$(NOX) --session browser

.nox/nox/bin/nox:
	$(PYTHON) -m venv .nox/nox
	.nox/nox/bin/python -m pip install --quiet --disable-pip-version-check "nox>=2024.4.15"

clean:
	rm -rf .nox dist build site .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis screenshots bench.json bench.md
