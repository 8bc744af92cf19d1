"""A Python that has NumPy and nnmagic-runtime, and nothing else: what is installed here is not."""

from __future__ import annotations

import importlib.metadata
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.assemble import assemble


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with the runtime, as it would be installed.

    The variable NNMAGIC_RUNTIME_PYTHON names one in which it is installed.
    """
    if python := os.environ.get("NNMAGIC_RUNTIME_PYTHON"):
        return Path(python)
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(folder)], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    assemble(site)
    numpy = Path(np.__file__).parent
    for each in (numpy, numpy.with_name("numpy.libs")):
        if each.exists():
            (site / each.name).symlink_to(each)
    return folder / "bin" / "python"


Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]


@pytest.fixture
def in_runtime(bare_python: Path, tmp_path: Path) -> Callable[[dict[str, Calls]], dict[str, Any]]:
    """Return what gives the outcomes of calls in the runtime, of the files in this test's folder."""

    def run(calls: dict[str, Calls]) -> dict[str, Any]:
        (tmp_path / "calls.pickle").write_bytes(pickle.dumps(calls))
        program = Path(__file__).with_name("outcomes.py")
        subprocess.run([bare_python, program, tmp_path], check=True, timeout=120, env={})
        found, loaded = pickle.loads((tmp_path / "found.pickle").read_bytes())
        installed = {*importlib.metadata.packages_distributions()} - {
            "numpy",
            "nnmagic_runtime",
            "_distutils_hack",
        }
        assert not installed & {*loaded}
        assert "nnmagic_runtime.nnmagic.relay.expr" not in loaded, "a call needs no Relay: import it later"
        return dict(found)

    return run
