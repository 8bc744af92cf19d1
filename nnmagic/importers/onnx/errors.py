"""Define the errors of an import, and collect those of a whole model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from nnmagic.diagnostics import Diagnostic, RelayError
from nnmagic.limits import MAX_ERRORS

#: What says where a problem is.
Place = TypeVar("Place")
#: The nodes that an error names; of more only the number is given.
_NAMED = 3
#: The characters of a node's name that are shown.
_LONGEST = 80
#: What a graph has beside nodes.
OF_GRAPH = ("graph", "input", "initializer", "sparse_initializer")


class OnnxError(RelayError):
    """An ONNX model that cannot be imported; ``diagnostics`` holds every problem, in the nodes' order."""

    kind = "ONNX error"


class UnsupportedError(Exception):
    """A node that cannot be imported: why, and what would help."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


def model_error(message: str, hint: str | None = None) -> OnnxError:
    """Return the error of a model that cannot be read at all."""
    return OnnxError([Diagnostic(message, None, hint)])


@dataclass(slots=True)
class Problems(Generic[Place]):
    """Collect the problems of a program: one entry for each operator and reason, with its places.

    Attributes:
        error: the class of what is raised.
        describe: returns the diagnostic of an operator, a reason, a hint and the places.

    """

    error: type[RelayError]
    describe: Callable[[str, str, str | None, list[Place]], Diagnostic]
    places: dict[tuple[str, str, str | None], list[Place]] = field(default_factory=dict)
    cause: BaseException | None = None

    def add(self, operator: str, place: Place, error: UnsupportedError) -> None:
        """Record why something cannot be translated."""
        places = self.places.setdefault((operator, error.reason, error.hint), [])
        if place is None or place not in places:
            places.append(place)
        self.cause = self.cause or error.__cause__

    def raise_if_any(self) -> None:
        """Raise an error with all problems, if there is one."""
        if not self.places:
            return
        diagnostics = [self.describe(*key, places) for key, places in self.places.items()]
        if len(diagnostics) > MAX_ERRORS:
            rest = Diagnostic(f"{len(diagnostics) - MAX_ERRORS} more errors are left out")
            diagnostics = [*diagnostics[:MAX_ERRORS], rest]
        raise self.error(diagnostics) from self.cause


def describe_problem(operator: str, reason: str, hint: str | None, nodes: list[str]) -> Diagnostic:
    """Return the diagnostic of a model's nodes that have one problem."""
    return Diagnostic(f"{operator}: {reason} ({_name_nodes(operator, nodes)})", None, hint)


def _name_nodes(operator: str, nodes: Sequence[str]) -> str:
    """Return which nodes have a problem; what belongs to the graph itself is a name only."""
    shown = ", ".join(f"{node[:_LONGEST]}…" if len(node) > _LONGEST else node for node in nodes[:_NAMED])
    more = len(nodes) - _NAMED
    what = "" if operator in OF_GRAPH else "nodes " if len(nodes) > 1 else "node "
    return f"{what}{shown}" + (f" and {more} more" if more > 0 else "")
