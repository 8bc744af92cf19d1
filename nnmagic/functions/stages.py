"""Provide the stages of a compiled function, source to machine code, as texts made on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Protocol

from nnmagic.fork_safety import Lock
from nnmagic.tracebacks import short_errors

#: Every stage, in the order of the compiler's work.
STAGES = ("source", "tree", "relay", "relay-typed", "passes", "relax", "tir", "llvm", "asm", "linked")

#: What stands in for the last three of a function that is compiled for CUDA.
CUDA_STAGE = "cuda"


class StageText(str):
    """The text of a stage; a notebook shows the text, not a string's repr."""

    __slots__ = ()

    def _repr_pretty_(self, printer: _PrettyPrinter, cycle: bool) -> None:  # noqa: ARG002 - IPython calls it so
        printer.text(self)


class _PrettyPrinter(Protocol):
    """The interface of IPython's pretty printer."""

    def text(self, text: str) -> None:
        """Print ``text``."""


#: One lock for all instances, because a `Lock` is never freed.
_MAKING = Lock()


class Stages(Mapping[str, StageText]):
    """The texts of the stages by name. A stage is made once, when it is first asked for.

    Raises KeyError, which lists the stages, for another name.
    """

    def __init__(self, makers: Mapping[str, Callable[[], str]]) -> None:
        self._makers = makers
        self._made: dict[str, StageText] = {}

    @short_errors
    def __getitem__(self, name: str) -> StageText:
        if name not in self._makers:
            raise KeyError(f"there is no stage {name!r}; the stages are {', '.join(self._makers)}")
        with _MAKING:
            if name not in self._made:
                self._made[name] = StageText(self._makers[name]())
            return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def __contains__(self, name: object) -> bool:
        return name in self._makers  # Mapping would make the stage to find out

    def _ipython_key_completions_(self) -> list[str]:
        return list(self._makers)

    def __repr__(self) -> str:
        return f"<stages: {', '.join(self._makers)}>"


def tree_text(root: object) -> str:
    """Return a syntax tree as an outline: a line per node with its plain fields, its children below it."""
    lines: list[str] = []
    stack = [(0, "", root)]
    while stack:
        indent, role, node = stack.pop()
        plain, parts = _fields(node)
        lines.append("  " * indent + role + " ".join([_format_value(node), *plain]))
        stack.extend((indent + 1, f"{name}: ", part) for name, part in reversed(parts))
    return "\n".join(lines)


def _fields(node: object) -> tuple[list[str], list[tuple[str, object]]]:
    """Return the fields of a node: plain values as text, and child nodes."""
    plain: list[str] = []
    fields: list[tuple[str, object]] = []
    for name in (field.name for field in getattr(type(node), "__attrs_attrs__", ())):
        if name.endswith("span"):
            continue
        value = getattr(node, name)
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list | tuple):
            fields += [(name, item) for item in value]
        elif hasattr(type(value), "__attrs_attrs__"):
            fields.append((name, value))
        elif value is not None:
            plain.append(f"{name}={_format_value(value)}")
    return plain, fields


def _format_value(value: object) -> str:
    if hasattr(type(value), "__attrs_attrs__"):
        return type(value).__name__.removesuffix("Node")
    return value.name if isinstance(value, Enum) else repr(value)
