"""Gather what nnmagic-runtime is made of: its own files, and those of nnmagic's modules that run functions.

The modules of nnmagic that the runtime needs are found by their imports. They become parts of
``nnmagic_runtime.nnmagic``, and import one another by that name; what uses TVM has a file here in its place.
Nothing else is changed: arguments are checked, calls are run and errors are told of by the same code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = HERE.parent / "nnmagic"

#: What is not needed, with all that it imports: Relay's text, NumPy's ufuncs.
LEFT_OUT = ("relay.text.parser", "relay.text.printer", "engine.relax.runtime.ufunc")

#: Packages whose names nothing here uses: their files import the compiler, and are left empty.
EMPTY = ("", "cache", "engine.relax", "relay.reference")

#: Where a module says that it imports one of nnmagic.
_IMPORT = re.compile(r"^( *(?:from|import)) nnmagic\b(?!_)", re.MULTILINE)


def assemble(folder: Path) -> None:
    """Write the package ``nnmagic_runtime`` into a folder."""
    for name, text in package().items():
        path = folder / "nnmagic_runtime" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def version() -> str:
    """Return the version, which is nnmagic's."""
    folder = SOURCES if SOURCES.is_dir() else HERE / "nnmagic_runtime" / "nnmagic"
    names: dict[str, str] = {}
    exec((folder / "_version.py").read_text("utf-8"), names)  # noqa: S102 - our own text
    return names["__version__"]


def package() -> dict[str, str]:
    """Return the files of the package ``nnmagic_runtime`` by their names."""
    own = HERE / "nnmagic_runtime"
    files = {path.relative_to(own).as_posix(): path.read_text("utf-8") for path in own.rglob("*.py")}
    work = [name for text in files.values() for name in _imported(text)]
    seen: set[str] = set()
    while work:
        module = work.pop()
        if module in seen or module in LEFT_OUT:
            continue
        seen.add(module)
        path = _path(module)
        name = "nnmagic/" + path.relative_to(SOURCES).as_posix()
        if name not in files:
            files[name] = "" if module in EMPTY else path.read_text("utf-8")
        work += _imported(files[name])
        if module:
            work.append(module.rpartition(".")[0])
    files = {name: _IMPORT.sub(r"\1 nnmagic_runtime.nnmagic", text) for name, text in files.items()}
    return {**files, "LICENSE": (SOURCES.parent / "LICENSE").read_text("utf-8")}


def _imported(text: str) -> Iterator[str]:
    """Yield the modules of nnmagic that a module imports, now or when it is called."""
    work: list[ast.AST] = [*ast.parse(text).body]
    for node in work:  # which grows
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                work += node.orelse
            case ast.ImportFrom(module=str() as name) if name.split(".")[0] == "nnmagic":
                within = name.removeprefix("nnmagic").removeprefix(".")
                for alias in node.names:
                    part = f"{within}.{alias.name}".removeprefix(".")
                    yield part if _path(part).exists() else within
            case _:
                work += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]


def _path(module: str) -> Path:
    """Return the file of a module of nnmagic."""
    path = SOURCES.joinpath(*module.split(".")) if module else SOURCES
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
