"""Let torch draw the random numbers of a graph before it runs, as eager torch does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.torch.tensors import dim_of
from nnmagic.importers.torch.views import size_at_call
from nnmagic.relay.ops.dims import as_polynomial
from nnmagic.relay.types import Dim

if TYPE_CHECKING:
    import torch
    from torch.fx import Graph
    from torch.fx import Node as FxNode

#: Operators whose random numbers depend on the shape and the dtype of an operand only.
_DRAWN = (
    *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"),
    *("normal_functional", "uniform", "exponential", "cauchy", "log_normal", "geometric", "random"),
)


def draw_outside(graph: Graph, labels: dict[str, str]) -> list[RandomCall]:
    """Make inputs, behind all others, of what a graph draws; return what draws them.

    What cannot be drawn before the graph runs is left in it.
    """
    import torch

    aten = torch.ops.aten
    packets = [getattr(aten, name) for name in _DRAWN]
    drawn = {getattr(packet, overload) for packet in packets for overload in packet.overloads()}
    drawn |= {aten.bernoulli.p, aten.normal.float_float, aten.native_dropout.default}
    draws = []
    for node in [node for node in graph.nodes if node.op == "call_function" and node.target in drawn]:
        try:
            draws.append(_draw_of(node, labels))
        except UnsupportedError:
            continue
        last = [each for each in graph.nodes if each.op == "placeholder"][-1:]
        with graph.inserting_after(*last) if last else graph.inserting_before(next(iter(graph.nodes))):
            placeholder = graph.placeholder(f"{node.name}_drawn")
        placeholder.meta = dict(node.meta)
        if node.target is aten.native_dropout.default:
            placeholder.meta["val"] = node.meta["val"][1]
            _drop(graph, node, placeholder)
        else:
            node.replace_all_uses_with(placeholder)
        graph.erase_node(node)
    return draws


def _drop(graph: Graph, node: FxNode, mask: FxNode) -> None:
    """Replace the results of a dropout by products with a mask, and the mask."""
    import torch

    data, p, train = node.args
    scale = 1.0 if train is False else 0.0 if p == 1 else 1 / (1 - p)
    for user in list(node.users):
        result = mask
        if user.args[1] == 0:
            with graph.inserting_before(user):
                masked = graph.call_function(torch.ops.aten.mul.Tensor, (data, mask))
                result = graph.call_function(torch.ops.aten.mul.Tensor, (masked, scale))
            masked.meta = result.meta = dict(user.meta)
        user.replace_all_uses_with(result)
        graph.erase_node(user)


@dataclass(frozen=True, slots=True)
class RandomCall:
    """A call of an operator that draws, for the sizes of a call."""

    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __call__(self, sizes: Mapping[str, int]) -> torch.Tensor:
        """Draw the numbers; sizes are those that have names."""
        import torch

        args = [_now(arg, sizes) for arg in self.args]
        if self.target is torch.ops.aten.native_dropout.default:
            return _mask(*args)
        kwargs = {name: _now(arg, sizes) for name, arg in self.kwargs.items()}
        return self.target(*args, **kwargs)


def _mask(data: torch.Tensor, p: float, train: bool | None) -> torch.Tensor:
    """Return what a dropout keeps; eager torch draws nothing where that is all or none."""
    import torch

    mask = torch.full(data.shape, train is False or p == 0)
    return mask.bernoulli_(1 - p) if train is not False and 0 < p < 1 else mask


@dataclass(frozen=True, slots=True)
class _NamedSize:
    """A size that the call knows."""

    dim: Dim


@dataclass(frozen=True, slots=True)
class _Like:
    """A tensor of which an operator reads the shape and the dtype."""

    shape: list[Any]
    dtype: torch.dtype


def _draw_of(node: FxNode, labels: dict[str, str]) -> RandomCall:
    """Return how the numbers of a node are drawn. Raises UnsupportedError."""

    def later(arg: Any) -> Any:
        if isinstance(arg, list | tuple):
            return [later(item) for item in arg]
        traced = arg.meta["val"] if hasattr(arg, "meta") else arg
        if hasattr(traced, "shape"):
            return _Like([later(size) for size in traced.shape], traced.dtype)
        if isinstance(traced, int | float | bool | None) or not hasattr(traced, "node"):
            return traced
        dim = dim_of(traced, labels)
        if as_polynomial(dim) is None:
            raise UnsupportedError("random numbers of a size that only the call knows are not supported")
        return _NamedSize(dim)

    kwargs = {name: later(arg) for name, arg in node.kwargs.items()}
    return RandomCall(node.target, tuple(map(later, node.args)), kwargs)


def _now(arg: Any, sizes: Mapping[str, int]) -> Any:
    import torch

    match arg:
        case list():
            return [_now(item, sizes) for item in arg]
        case _NamedSize(dim):
            return size_at_call(dim, sizes)
        case _Like(shape, dtype):
            return torch.empty(_now(shape, sizes), dtype=dtype)
    return arg
