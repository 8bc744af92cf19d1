"""The walls between the packages: which part may import which, and what importing nnmagic costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "nnmagic"

#: part -> the parts it may import (itself always). Parts are nnmagic's top-level modules and packages.
MAY_IMPORT = {
    "_version": set(),
    "diagnostics": set(),
    "tracebacks": {"diagnostics"},
    "progress": set(),
    "fork_safety": set(),
    "cache": {"tracebacks", "fork_safety"},
    "relay": {"diagnostics", "tracebacks"},
    "engine": {"diagnostics", "tracebacks", "fork_safety", "progress", "relay"},
    "tinynn": {"diagnostics", "tracebacks", "relay"},
    "rendering": {"diagnostics", "relay"},
    "functions": {
        "_version",
        "cache",
        "diagnostics",
        "engine",
        "tracebacks",
        "fork_safety",
        "rendering",
        "progress",
        "relay",
        "tinynn",
    },
    "jupyter": {
        *(
            "_version",
            "cache",
            "diagnostics",
            "engine",
            "tracebacks",
            "functions",
            "rendering",
            "progress",
            "relay",
            "tinynn",
        )
    },
    "__init__": {
        "_version",
        "cache",
        "diagnostics",
        "engine",
        "fork_safety",
        "functions",
        "jupyter",
        "relay",
        "tinynn",
    },
}
#: outside package -> the only parts that may import it.
ONLY_IN = {
    "tvm": {"engine"},
    "tvm_ffi": {"engine"},
    "tvm_ffi_orcjit": {"engine"},
    "synr": {"tinynn"},
    "IPython": {"jupyter"},
    "traitlets": {"jupyter"},
    "pygments": {"rendering"},
}
FILES = sorted(PACKAGE.rglob("*.py"))
PARTS = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at its top or inside functions, as absolute dotted names."""
    found: set[str] = set()
    here = ["nnmagic", *path.relative_to(PACKAGE).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*here[: -node.level]] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_only_what_its_part_may(path: Path) -> None:
    part = part_of(path)
    for name in imports(path):
        top, *rest = name.split(".")
        if top == "nnmagic" and rest and rest[0] in PARTS:
            assert rest[0] == part or rest[0] in MAY_IMPORT[part], f"{part} must not import {name}"
        assert part in ONLY_IN.get(top, {part}), f"only {sorted(ONLY_IN[top])} may import {top}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_begins_by_saying_what_it_is(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, "the first line of a file says what it is"


def test_the_language_has_no_import_circle() -> None:
    """Imports for types count, too: a reader who starts anywhere comes to an end."""
    graph: dict[str, set[str]] = {}
    for path in FILES:
        if part_of(path) == "tinynn":
            name = ".".join(["nnmagic", *path.relative_to(PACKAGE).with_suffix("").parts])
            graph[name.removesuffix(".__init__")] = imports(path)
    for name, found in graph.items():
        modules = found & graph.keys()
        packages = {other.rpartition(".")[0] for other in modules}  # `from package import module`
        graph[name] = modules - packages
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def modules_after(code: str) -> set[str]:
    """The top-level modules loaded by a fresh interpreter after ``code``."""
    script = f"{code}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_importing_nnmagic_loads_neither_compiler_nor_notebook() -> None:
    assert not modules_after("import nnmagic") & {"tvm", "tvm_ffi", "IPython", "synr", "numpy"}


def test_relay_loads_neither_compiler_nor_notebook() -> None:
    loaded = modules_after(
        "import nnmagic.relay as r\n"
        "m = r.parse('#[version = \"0.0.5\"]\\ndef @main(%x: Tensor[(2), float32]) { exp(%x) }')\nstr(m)"
    )
    assert not loaded & {"tvm", "tvm_ffi", "IPython", "synr"}
