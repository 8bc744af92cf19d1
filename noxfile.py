"""What `make` runs: every session has an environment of its own in .nox, kept from run to run.

`nox --list` names the sessions; `nox` runs the suite on every supported Python that is installed. Arguments
after ``--`` go to the program that a session runs, as in ``nox -s test -- -k cache``.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests"]

ROOT = Path(__file__).parent
PYTEST = ("python", "-m", "pytest")
PARALLEL = ("-n", os.environ.get("JOBS") or "auto", "--dist", "worksteal")
COLAB = ("ipython==7.34.*", "ipykernel==6.17.*")
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


@nox.session
def demo(session: nox.Session) -> None:
    """Run the quickstart notebook in a real kernel and print what it shows."""
    install(session, ["--editable", ".", "--group", "demo"])
    session.run("python", "tools/run_notebook.py", *(session.posargs or ["examples/quickstart.ipynb"]))


@nox.session
def test(session: nox.Session) -> None:
    """Run the default suite, or with `--full` the full one."""
    install(session, ["--editable", ".", "--group", "test"])
    budget = () if "--full" in session.posargs else ("--budget",)
    session.run(*PYTEST, *PARALLEL, *budget, "--durations=30", *session.posargs)


@nox.session(python=["3.10", "3.11", "3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    """Run the default suite on one of the supported Pythons."""
    test(session)


@nox.session(name="test-oldest", venv_backend="none")
def test_oldest(session: nox.Session) -> None:
    """Run what posargs name, or the tests of functions, on Python 3.10."""
    folder = ROOT / ".nox" / "oldest"
    if not python_of(folder).exists():
        session.run(find_python_3_10(session), "-m", "venv", str(folder), external=True)
    install(session, ["--editable", ".", "--group", "test"], folder=folder)
    chosen = session.posargs or ["tests/functions"]
    session.run(str(python_of(folder)), *PYTEST[1:], *PARALLEL, *chosen, external=True)


@nox.session
def browser(session: nox.Session) -> None:
    """Test JupyterLab, Notebook 7 and pages of HTML in Chromium, which CHROMIUM names."""
    chromium = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if chromium is None:
        session.error("no Chromium was found: CHROMIUM=... names one")
    install(session, ["--editable", ".", "--group", "browser"])
    session.run(*PYTEST, "--full", "tests/browser", *session.posargs, env={"NNMAGIC_BROWSER": chromium})


@nox.session(name="test-array-api")
def test_array_api(session: nox.Session) -> None:
    """Run the array API standard's conformance suite, a checkout of which ARRAY_API_TESTS names."""
    suite = Path(os.environ.get("ARRAY_API_TESTS") or "none")
    if not (suite / "array_api_tests").is_dir() or not (suite / "array-api" / "src").is_dir():
        session.error(
            "ARRAY_API_TESTS must name a checkout of the suite with its submodule: "
            "git clone --recurse-submodules https://github.com/data-apis/array-api-tests"
        )
    install(session, ["--editable", ".", "--group", "array-api"])
    session.env["ARRAY_API_TESTS_MODULE"] = "tests.array_api.namespace"
    session.env["ARRAY_API_TESTS_MAX_ARRAY_SIZE"] = "64"
    session.env["PYTHONPATH"] = str(ROOT)
    refused = ROOT / "tests" / "array_api" / "refused.txt"
    options = (
        f"--xfails-file={refused}",
        "--max-examples=20",
        "--disable-deadline",
        "--hypothesis-derandomize",
    )
    plugins = ("-p", "tests.array_api.suite_settings", "-p", "no:cacheprovider", "-W", "ignore")
    session.chdir(suite)
    session.run(*PYTEST, "array_api_tests", "-q", *options, *plugins, *PARALLEL, *session.posargs)


@nox.session
def wheel(session: nox.Session) -> None:
    """Build the sdist and a wheel, install that alone in a new environment, and use it away from the sources.

    An index must take both. The README's cells and the quickstart run, this with Google Colab's IPython, too.
    """
    install(session, ["build>=1.2", "twine>=6.1"])
    dist = Path(session.create_tmp()) / "dist"
    session.run("python", "-m", "build", "--outdir", str(dist), ".")
    session.run("python", "-m", "twine", "check", "--strict", *map(str, dist.iterdir()))
    folder = Path(session.virtualenv.location).with_name("wheel-clean")
    session.run("python", "-m", "venv", "--clear", str(folder))
    python, (built,) = str(python_of(folder)), dist.glob("*.whl")
    session.run(python, "-m", "pip", "install", "--quiet", str(built), "nbclient>=0.10", external=True)
    session.chdir(dist)
    notebook, runner = ROOT / "examples" / "quickstart.ipynb", ROOT / "tools" / "run_notebook.py"
    session.run(python, "-m", "nnmagic", external=True)
    session.run(python, str(runner), str(ROOT / "README.md"), str(notebook), external=True)
    session.run(python, "-m", "pip", "install", "--quiet", *COLAB, external=True)
    session.run(python, str(runner), str(notebook), external=True)


@nox.session(venv_backend="none")
def binder(session: nox.Session) -> None:
    """Run notebooks in what binder/ installs, beside JupyterLab: posargs, or the quickstart and three more.

    What conda installs there, the notebooks on PyTorch and C need.
    """
    folder = ROOT / ".nox" / "binder"
    session.run(sys.executable, "-m", "venv", "--clear", str(folder), external=True)
    install(session, ["--upgrade", "jupyterlab==4.*"], folder=folder)
    paths = f"{python_of(folder).parent}{os.pathsep}{os.environ['PATH']}"
    session.run("bash", "binder/postBuild", env={"PATH": paths}, external=True)
    notebooks = session.posargs or [
        f"examples/{name}.ipynb" for name in ("quickstart", "digits", "models", "reading_relay")
    ]
    session.run(str(python_of(folder)), "tools/run_notebook.py", *notebooks, external=True)


@nox.session(name="test-runtime")
def test_runtime(session: nox.Session) -> None:
    """Build nnmagic-runtime, install it alone in a new environment, and run there what nnmagic saves."""
    install(session, ["--editable", ".[linalg]", "--group", "pytest"], ["build>=1.2"])
    dist = Path(session.create_tmp()) / "dist"
    session.run("python", "-m", "build", "--outdir", str(dist), "runtime")
    folder = Path(session.virtualenv.location).with_name("runtime-clean")
    session.run("python", "-m", "venv", "--clear", str(folder))
    python, (built,) = str(python_of(folder)), dist.glob("*.whl")
    session.run(python, "-m", "pip", "install", "--quiet", str(built), external=True)
    session.run(*PYTEST, "--full", "tests/runtime", *session.posargs, env={"NNMAGIC_RUNTIME_PYTHON": python})
    session.run("python", "tools/runtime_costs.py", python)


@nox.session(name="test-tools")
def test_tools(session: nox.Session) -> None:
    """Test nnmagic in what runs notebooks, a cluster, an editor, and libraries that take functions."""
    install(session, ["--editable", ".", "--group", "tools"])
    session.run(*PYTEST, "--full", "tests/tools", *session.posargs)


@nox.session
def windows(session: nox.Session) -> None:
    """Run tests in a Python for Windows under Wine: posargs, or those of functions and of the cache."""
    install(session, ["lief>=0.16"])
    folder = Path(session.virtualenv.location).with_name("windows-python")
    chosen = session.posargs or ["tests/functions", "tests/cache"]
    run = ("python", "tools/windows_python.py", str(folder), "-m", "pytest", "-p", "no:cacheprovider")
    session.run(*run, *chosen)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation in site/; a warning is an error."""
    install(session, ["--editable", ".", "--group", "docs"])
    session.run("mkdocs", "build", "--strict", "--quiet", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(name="test-torch")
def test_torch(session: nox.Session) -> None:
    """Test the import of PyTorch programs, with torch's build for CPUs and a C++ compiler."""
    install(session, ["--editable", ".", "--group", "torch"])
    cells = ("tests/tinynn/elaborate/test_torch_modules.py", "tests/tinynn/builtins/test_torch_names.py")
    arrays = "tests/engine/test_foreign_arrays.py"
    functions = ("tests/functions/frameworks", "tests/docs/test_libraries_page.py")
    notebook = "tests/notebooks/test_examples.py::test_an_example_gives_what_it_shows[pytorch]"
    session.run(
        *PYTEST,
        "--full",
        "tests/importers/torch",
        *cells,
        arrays,
        *functions,
        notebook,
        *PARALLEL,
        *session.posargs,
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and types, also of the Python files that the documentation shows."""
    install(session, ["--editable", ".", "--group", "lint"])
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    schema = ("--builtin-schema", "vendor.github-workflows")
    session.run("check-jsonschema", *schema, *map(str, Path(".github/workflows").glob("*.yml")))
    session.run("mypy")
    session.run("python", "tools/check_examples.py")


@nox.session(name="format")
def format_code(session: nox.Session) -> None:
    """Correct the style."""
    install(session, ["--group", "lint"])
    session.run("ruff", "check", "--fix", ".")
    session.run("ruff", "format", ".")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure speeds beside other libraries; BENCH holds options of `python -m benchmarks`."""
    install(session, ["--editable", ".", "--group", "bench"])
    options = shlex.split(os.environ.get("BENCH", ""))
    session.run("python", "-m", "benchmarks", "--json", "bench.json", "--markdown", "bench.md", *options)


@nox.session
def cookbook(session: nox.Session) -> None:
    """Measure the recipes and examples/cookbook beside NumPy, numba, torch; fail where nnmagic is slower."""
    install(session, ["--editable", ".", "--group", "bench", "--group", "demo"])
    session.run("python", "tools/recipe_ratios.py")
    session.run("python", "tools/cookbook_ratios.py", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Search for wrong results of random programs, FUZZ_SECONDS long (an hour), from the seed FUZZ_FIRST."""
    install(session, ["--editable", ".", "--group", "test"])
    first = ("--seed", os.environ.get("FUZZ_FIRST") or "0")
    limit = ("--seconds", os.environ.get("FUZZ_SECONDS") or "3600")
    session.run("python", "-m", "tests.random_programs", *session.posargs, *first, *limit)


@nox.session
def lab(session: nox.Session) -> None:
    """Open the examples in JupyterLab."""
    install(session, ["--editable", ".", "--group", "lab"])
    session.run("jupyter", "lab", "examples", *session.posargs)


@nox.session(name="oracle-python", venv_backend="none")
def oracle_python(session: nox.Session) -> None:
    """Succeed where `oracle` can run."""
    find_python_3_10(session)


@nox.session
def oracle(session: nox.Session) -> None:
    """Compare programs, texts, types and numbers with real Relay."""
    # TVM's last wheel with Relay is called tvm, too: it cannot share an environment with the TVM of nnmagic.
    folder = Path(session.virtualenv.location).with_name("relay")
    relay = str(folder / "bin" / "python")
    if not Path(relay).exists():
        session.run(find_python_3_10(session), "-m", "venv", str(folder), external=True)
    install(session, ["--group", "relay"], ["--no-deps", "--editable", "."], folder=folder)
    session.run(relay, "-m", "pytest", "tests/engine/legacy_relay/test_legacy_relay.py", external=True)
    install(session, ["--editable", ".", "--group", "pytest"])
    session.run(*PYTEST, "tests/oracle", *PARALLEL, *session.posargs, env={"NNMAGIC_ORACLE": relay})


def find_python_3_10(session: nox.Session) -> str:
    """Return the oldest Python, the newest with a TVM with Relay: ORACLE_PYTHON, or any for x86-64 Linux."""
    check = "import platform, sys; print(*sys.version_info[:2], sys.platform, platform.machine())"
    pyenv = Path("~/.pyenv/versions").expanduser().glob("3.10.*/bin/python")
    named = os.environ.get("ORACLE_PYTHON")
    for name in [named] if named else ["python3.10", *map(str, pyenv)]:
        if python := shutil.which(name):
            shown = subprocess.run([python, "-c", check], capture_output=True, text=True, check=False).stdout
            if shown.split() == ["3", "10", "linux", "x86_64"]:
                return python
    message = "no working Python 3.10 for x86-64 Linux was found: ORACLE_PYTHON=... names one"
    return session.error(message)


def python_of(folder: Path) -> Path:
    """Return the Python of an environment, on every system."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(session: nox.Session, *requests: list[str], folder: Path | None = None) -> None:
    """Install with pip, once until pyproject.toml or the version changes.

    Args:
        session: whose environment it is.
        requests: what pip is given, one run of pip each.
        folder: another environment instead of the session's own.

    """
    folder = folder or Path(session.virtualenv.location)
    declared = (ROOT / "pyproject.toml", ROOT / "nnmagic" / "_version.py")
    content = b"".join(path.read_bytes() for path in declared) + repr(requests).encode()
    digest, stamp = hashlib.sha256(content).hexdigest(), folder / "installed"
    if stamp.exists() and stamp.read_text() == digest:
        return
    pip = [str(python_of(folder)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for request in (["--upgrade", "pip>=25.1"], *requests):  # pip has --group since 25.1
        session.run(*pip, *request, external=True)
    stamp.write_text(digest)
