"""Locate a run-time error in the source: the calls in the typed Relay that may have raised it.

Machine code reports the operator and the sizes, not the location: cells that mean the same share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nnmagic.diagnostics import append_location
from nnmagic.engine.failed_checks import detach_check
from nnmagic.relay.expr import Call, GlobalVar, OpRef
from nnmagic.relay.failures import RAISE
from nnmagic.relay.module import Module
from nnmagic.relay.structure.callgraph import call_graph, components
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import ANY, Dim, TensorType

#: At most so many locations are shown where more than one may have raised an error.
_MOST = 4


def add_location(error: BaseException, module: Module) -> None:
    """Append the location of a run-time error, or its few candidates, to its message."""
    if len(error.args) != 1 or not isinstance(error.args[0], str):
        return
    _locate(error, error.args[0], module)
    if isinstance(error, KeyError):
        error.args = (_Text(error.args[0]),)


def _locate(error: BaseException, message: str, module: Module) -> None:
    calls: Iterable[Call]
    check = detach_check(error)
    if check is not None and check.number is not None:
        calls = (
            call
            for call in _calls(module)
            if _operator(call) == RAISE and call.attrs["number"] == check.number
        )
    elif "\n" in message:
        return
    elif isinstance(error, RecursionError):
        message += (
            "; a `for` or `while` loop takes no stack, except in the gradient of a loop whose number of "
            "rounds is not known before it begins"
        )
        calls = _recursive_calls(module)
    elif check is None:
        return
    elif check.axis_size is not None:
        calls = list(_indexing_calls(module, check.axis_size))
        checked = {_checked_number(call) for call in calls}
        message = next(iter(checked)) if len(checked) == 1 and "" not in checked else message
    else:
        message = message.removeprefix("dyn.")
        name = check.operator.removeprefix("dyn.")
        calls = (call for call in _calls(module) if _operator(call).removeprefix("dyn.") == name)
    spans = list(dict.fromkeys(call.span for call in calls if call.span is not None))
    if len(spans) == 1:
        message = append_location(message, spans[0])
    elif 1 < len(spans) <= _MOST:
        message += f"\n --> one of {', '.join(map(str, spans))}"
    error.args = (message,)


class _Text(str):
    """A message that a KeyError shows as it is: Python shows the repr of a key, on one line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _calls(module: Module) -> Iterator[Call]:
    for function in module.functions.values():
        yield from (node for node in post_order(function) if isinstance(node, Call))


def _operator(call: Call) -> str:
    return call.op.name if isinstance(call.op, OpRef) else ""


def _indexing_calls(module: Module, size: int) -> Iterator[Call]:
    """Yield the calls that index an axis which may have that size."""
    for call in _calls(module):
        if any(not isinstance(dim, int) or dim == size for dim in _indexed_dims(call)):
            yield call


#: What it means that a number fails the check that it is not 0.
_ZERO = "the step of a range or of a slice cannot be zero"


def _checked_number(call: Call) -> str:
    """Return what the failure of a call means that checks a number, by taking one element of one; else ""."""
    index = call.args[1] if _operator(call) == "take" else None
    size = getattr(call.args[0].checked_type, "shape", ())
    compared = index.args[0] if isinstance(index, Call) and _operator(index) == "cast" else None
    is_check = size == (1,) and isinstance(compared, Call) and _operator(compared) == "equal"
    return _ZERO if is_check else ""


def _indexed_dims(call: Call) -> tuple[Dim, ...]:
    """Return the sizes of the axes that a call may find an index out of range of."""
    name = _operator(call)
    if name not in ("take", "scatter_nd") or (name == "take" and call.attrs["mode"] != "fast"):
        return ()
    data, indices = (arg.checked_type for arg in call.args[:2])
    if not isinstance(data, TensorType) or not isinstance(indices, TensorType):
        return (ANY,)
    if name == "scatter_nd":
        depth = indices.shape[0]
        return data.shape[:depth] if isinstance(depth, int) else data.shape
    axis = call.attrs["axis"]
    return (data.shape[axis],) if isinstance(axis, int) else (ANY,)


def _recursive_calls(module: Module) -> Iterator[Call]:
    """Yield the calls of functions that call themselves, directly or through others."""
    graph = call_graph(module)
    group = {name: index for index, names in enumerate(components(graph)) for name in names}
    for name, function in module.functions.items():
        for node in post_order(function):
            if isinstance(node, Call) and isinstance(node.op, GlobalVar):
                callee = node.op.name
                if callee in group and group[callee] == group[name]:
                    yield node
