"""The suite on every supported Python: `nox` (all that are installed) or `nox -s tests-3.13`."""

import nox

nox.options.error_on_missing_interpreters = False
nox.options.default_venv_backend = "venv"


@nox.session(python=["3.10", "3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """Installs nnmagic with its test dependencies and runs pytest; arguments after ``--`` go to pytest."""
    session.install("--upgrade", "pip>=25.1")
    session.install("--editable", ".", "--group", "test")
    session.run("python", "-m", "pytest", "-n", "auto", "--dist", "worksteal", *session.posargs)
