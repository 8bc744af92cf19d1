"""The walls between the packages: which part may import which, and what importing nnmagic costs.

CONTRIBUTING.md shows the same tables.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "nnmagic"

#: part -> the parts it may import (itself always). Parts are nnmagic's top-level modules and packages.
MAY_IMPORT = {
    part: set(may.split())
    for part, may in {
        "__init__": "_version cache diagnostics engine fork_safety functions jupyter numpy relay tinynn",
        "__main__": "functions",
        "_version": "",
        "diagnostics": "limits",
        "tracebacks": "diagnostics",
        "fork_safety": "",
        "progress": "",
        "limits": "",
        "cache": "fork_safety tracebacks",
        "numpy": "relay tinynn",
        "relay": "diagnostics limits tracebacks",
        "tinynn": "diagnostics limits tracebacks relay",
        "importers": "diagnostics limits tracebacks relay",
        "exporters": "diagnostics importers limits tracebacks relay",
        "engine": "diagnostics fork_safety limits tracebacks progress relay",
        "rendering": "diagnostics relay",
        "functions": (
            "_version cache diagnostics engine exporters fork_safety importers progress relay rendering "
            "tinynn tracebacks"
        ),
        "dask": "diagnostics engine functions relay tracebacks",
        "jupyter": "_version cache diagnostics engine functions progress relay rendering tinynn tracebacks",
    }.items()
}
#: The folders and files inside a part, from the top down: each imports only those below it.
LAYERS = {
    "tinynn": (
        *(
            "compilation",
            "editor",
            "elaborate",
            "namespace",
            "program",
            "parameters",
            "builtins",
            "operators",
            "analysis",
        ),
        *("calls", "values", "syntax", "types"),
    ),
    "engine/relax": (
        *(
            "compiler_server",
            "driver",
            "profiling",
            "codegen",
            "prepared_program",
            "interpreter",
            "lowering",
            "legalize",
        ),
        *("compiler_process", "deferred_interrupts", "runtime", "analysis", "schedules", "tir", "artifact"),
    ),
}
#: What runs where the compiler is not.
WITHOUT_COMPILER = ("analysis", "runtime", "interpreter", "artifact", "deferred_interrupts")
#: outside package -> the only parts that may import it.
ONLY_IN = {
    "tvm": {"engine"},
    "tvm_ffi": {"engine"},
    "tvm_ffi_orcjit": {"engine"},
    "synr": {"tinynn"},
    "IPython": {"jupyter"},
    "traitlets": {"jupyter"},
    "pygments": {"rendering"},
    "onnx": {"exporters", "importers"},
    "torch": {"functions", "importers"},
    "jax": {"functions"},
    "dask": {"dask"},
}
FILES = sorted(PACKAGE.rglob("*.py"))
PARTS = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement, also those inside of others."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from statements(getattr(statement, field, []))


@functools.cache
def imports(path: Path) -> set[str]:
    """Every module that a file imports, at its top or inside functions, as absolute dotted names."""
    names: set[str] = set()
    here = list(path.relative_to(ROOT).with_suffix("").parts)
    for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*here[: -node.level]] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_imports_only_what_it_may(part: str) -> None:
    for path in FILES:
        for name in imports(path) if part_of(path) == part else ():
            top, *rest = name.split(".")
            if top == "nnmagic" and rest and rest[0] in PARTS:
                assert rest[0] == part or rest[0] in MAY_IMPORT[part], f"{path} must not import {name}"
            assert part in ONLY_IN.get(top, {part}), f"only {sorted(ONLY_IN[top])} may import {top}: {path}"


def rooms(part: str) -> dict[str, list[Path]]:
    """The files of each folder, and each loose file, inside a part."""
    by_room: dict[str, list[Path]] = {}
    for path in FILES:
        if path.is_relative_to(PACKAGE / part):
            room = path.relative_to(PACKAGE / part).parts[0].removesuffix(".py")
            by_room.setdefault(room, []).append(path)
    return by_room


@pytest.mark.full
@pytest.mark.parametrize("part", LAYERS)
def test_a_folder_imports_only_those_below_it(part: str) -> None:
    layers, inside = LAYERS[part], "nnmagic." + part.replace("/", ".") + "."
    assert set(rooms(part)) - {"__init__"} == set(layers)
    for height, room in enumerate(layers):
        for path in rooms(part)[room]:
            for name in imports(path):
                other = name.removeprefix(inside).split(".")[0] if name.startswith(inside) else room
                assert other in layers[height:], f"{path.relative_to(ROOT)} must not import {name}"


@pytest.mark.parametrize("room", WITHOUT_COMPILER)
def test_what_runs_without_the_compiler_never_imports_it(room: str) -> None:
    for path in rooms("engine/relax")[room]:
        assert "tvm" not in {name.split(".")[0] for name in imports(path)}, path


def test_the_interpreter_imports_relay_and_numpy_alone() -> None:
    for folder in ("engine/numpy", "relay/reference"):
        for path in (PACKAGE / folder).glob("*.py"):
            for name in imports(path):
                top, *rest = name.split(".")
                if top == "nnmagic":
                    own = name.startswith("nnmagic.engine.numpy")
                    assert own or rest[0] in ("relay", "diagnostics"), f"{path}: {name}"
                else:
                    assert top == "numpy" or top in sys.stdlib_module_names, f"{path}: {name}"


def table(below: str) -> list[list[str]]:
    """The rows of the first table after a line of CONTRIBUTING.md, without code marks."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("`", "")
    lines = text[text.index(below.replace("`", "")) :].splitlines()
    begin = next(index for index, line in enumerate(lines) if line.startswith("|"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[begin + 2 :]]
    return rows[: next(index for index, line in enumerate(lines[begin + 2 :]) if not line.startswith("|"))]


def test_contributing_shows_the_walls() -> None:
    shown = {
        re.sub(r"nnmagic/|\.py|/$", "", part): set(may.replace(",", " ").split()) - {"\u2013"}
        for part, _, may in table("Imports go in one direction")
    }
    assert shown == MAY_IMPORT


@pytest.mark.parametrize("part", LAYERS)
def test_contributing_shows_the_folders(part: str) -> None:
    folders = [room for room in LAYERS[part] if (PACKAGE / part / room).is_dir()]
    assert [row[0].strip("/") for row in table(f"Inside `nnmagic/{part}/`")] == folders


def test_a_file_begins_by_saying_what_it_is() -> None:
    assert not [path for path in FILES if not path.read_text(encoding="utf-8").startswith('"""')]


def test_the_tests_of_a_module_can_be_found() -> None:
    """A module has a test file of its name in the mirrored folder, or a test file names it, or it is listed.

    A test file names a module where it imports it, or by its path without ``nnmagic/`` and ``.py``. The list,
    ``modules_without_tests.txt``, may only become shorter.
    """
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    named = set(re.findall(r"\w+(?:/\w+)+", text))
    for package, names in re.findall(r"from nnmagic([\w.]*) import (\([^)]*\)|.*)", text):
        folder = package.strip(".").replace(".", "/")
        named.update([folder, *(f"{folder}/{name}" for name in re.findall(r"\w+", names))])
    unnamed = []
    for path in FILES:
        module = path.relative_to(PACKAGE).with_suffix("")
        own = ROOT / "tests" / module.parent / f"test_{module.name}.py"
        if module.name != "__init__" and not own.exists() and module.as_posix() not in named:
            unnamed.append(module.as_posix())
    listed = (ROOT / "tests" / "modules_without_tests.txt").read_text(encoding="utf-8").splitlines()
    assert unnamed == listed


@pytest.mark.full
def test_the_language_has_no_import_circle() -> None:
    """Imports for types count, too: a reader who starts anywhere comes to an end."""
    graph: dict[str, set[str]] = {}
    for path in FILES:
        if part_of(path) == "tinynn":
            name = ".".join(["nnmagic", *path.relative_to(PACKAGE).with_suffix("").parts])
            graph[name.removesuffix(".__init__")] = imports(path)
    for name, imported in graph.items():
        modules = imported & graph.keys()
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


def test_a_cell_that_is_found_on_disk_loads_neither_compiler_nor_parser() -> None:
    loaded = modules_after(
        "import nnmagic.functions.cells.compile_cell, nnmagic.functions.compiled, nnmagic.jupyter.commands"
    )
    assert not loaded & {"tvm", "tvm_ffi", "synr"}
