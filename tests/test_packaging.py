"""pyproject.toml: what it says in two places agrees. May know that file alone."""

import re
import sys
from pathlib import Path

import pytest

# The environment with real Relay has a TVM of its own, and runs no notebook.
_NOT_WITH_RELAY = {
    "apache-tvm",
    "apache-tvm-ffi",
    "apache-tvm-ffi-orcjit",
    "platformdirs",
    "ipython",
    "ipykernel",
    "pygments",
}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")
def test_the_environment_of_real_relay_has_what_nnmagic_imports():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    assert (
        _names(project["project"]["dependencies"]) - _names(project["dependency-groups"]["relay"])
        == _NOT_WITH_RELAY
    )


def _names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w.-]+", requirement)[0] for requirement in requirements}
