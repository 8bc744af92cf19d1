"""Find the handlers of exceptions after which a program goes on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def goes_on(body: list[ast.stmt]) -> bool:
    """Whether a handler may end without raising."""
    match body[-1]:
        case ast.Raise():
            return False
        case ast.If(body=then, orelse=other):
            return goes_on(then) or not other or goes_on(other)
    return True


def handlers(node: ast.AST, name: str) -> Iterator[str]:
    """The functions below a node with a handler that goes on, or with `suppress`."""
    for child in ast.iter_child_nodes(node):
        inside = name
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inside = f"{name}.{child.name}".lstrip(".")
        if isinstance(child, ast.ExceptHandler) and goes_on(child.body):
            yield name
        if isinstance(child, ast.Call) and ast.unparse(child.func) in ("suppress", "contextlib.suppress"):
            yield name
        yield from handlers(child, inside)


def handlers_in(folder: Path) -> set[str]:
    """The functions of a folder's files that have such a handler, by file and name."""
    return {
        f"{path.relative_to(folder).with_suffix('').as_posix()} {name}"
        for path in folder.rglob("*.py")
        for name in handlers(ast.parse(path.read_text(encoding="utf-8")), "")
    }
