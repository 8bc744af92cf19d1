"""What pyproject.toml says agrees with itself and with what the sessions of noxfile.py need."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib came with Python 3.11")

ROOT = Path(__file__).parents[1]

# The environment with real Relay has a TVM of its own, and runs no notebook.
_NOT_WITH_RELAY = {
    "apache-tvm",
    "apache-tvm-ffi",
    "apache-tvm-ffi-orcjit",
    "platformdirs",
    "ipython",
    "ipykernel",
    "pygments",
    "archspec",
}

#: What a session runs, by the group of dependencies that it installs beside nnmagic.
_RUNS = {
    "demo": ["tools/run_notebook.py"],
    "test": ["tests"],
    "pytest": ["tests/conftest.py", "tests/oracle", "tests/relay/corpus.py", "tests/engine/programs.py"],
    "browser": ["tests/conftest.py", "tests/browser"],
    "torch": ["tests/conftest.py", "tests/importers/torch"],
    "tools": ["tests/conftest.py", "tests/tools"],
    "docs": ["tools/docs_pages.py"],
    "bench": ["benchmarks"],
}
#: What is imported under another name than it is installed.
_INSTALLED_AS = {
    "tvm": "apache-tvm",
    "tvm_ffi": "apache-tvm-ffi",
    "mkdocs": "mkdocs-material",
    "sklearn": "scikit-learn",
}
_OURS = {"nnmagic", "tests", "benchmarks", "tools", "runtime"}


def test_the_environment_of_real_relay_has_what_nnmagic_imports() -> None:
    declared = _project()
    relay = _names(declared["dependency-groups"]["relay"])
    assert _names(declared["project"]["dependencies"]) - relay == _NOT_WITH_RELAY


#: What runs where torch is installed, and is skipped elsewhere.
_WITH_TORCH = (ROOT / "tests/importers/torch", ROOT / "tests/random_programs/torch_judge.py")


@pytest.mark.full("test")
@pytest.mark.parametrize("group", _RUNS)
def test_a_session_installs_what_the_files_that_it_runs_import(group: str) -> None:
    """At the head of a file: what a function imports is there, or the function skips a test."""
    declared = _project()
    installed = _names(declared["project"]["dependencies"]) | _names(_requirements(declared, group))
    missing = {
        f"{path.relative_to(ROOT)} imports {name}"
        for start in _RUNS[group]
        for path in _python_files(ROOT / start)
        if group == "torch" or not any(map(path.is_relative_to, _WITH_TORCH))
        for name in _find_imports(ast.parse(path.read_text(encoding="utf-8")))
        if name not in sys.stdlib_module_names | _OURS
        and _INSTALLED_AS.get(name, name.lower().replace("_", "-")) not in _normalize(installed)
    }
    assert not missing


def test_imports_are_found_wherever_they_are_executed_at_once() -> None:
    tree = ast.parse(
        "import a.b, c\nfrom d.e import f\ntry:\n    import g\nexcept ImportError:\n    import h\n"
        "if True:\n    from i import j\nclass K:\n    import l\ndef m():\n    import n\n"
        "if TYPE_CHECKING:\n    import o\n"
    )
    assert [*_find_imports(tree)] == ["a", "c", "d", "g", "h", "i", "l"]


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _requirements(declared: dict[str, Any], group: str) -> list[str]:
    """What a group of dependencies asks for, together with the groups that it includes."""
    requirements: list[str] = []
    for requirement in declared["dependency-groups"][group]:
        if isinstance(requirement, str):
            requirements.append(requirement)
        else:
            requirements += _requirements(declared, requirement["include-group"])
    return requirements


def _names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w.-]+", requirement)[0] for requirement in requirements}


def _normalize(names: set[str]) -> set[str]:
    return {name.lower().replace("_", "-") for name in names}


def _python_files(start: Path) -> list[Path]:
    return [start] if start.is_file() else sorted(start.rglob("*.py"))


def _find_imports(node: ast.AST) -> Iterator[str]:
    """The packages that are imported when a file is."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Import():
                yield from (name.name.partition(".")[0] for name in child.names)
            case ast.ImportFrom(level=0, module=str(module)):
                yield module.partition(".")[0]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                pass
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case _:
                yield from _find_imports(child)
