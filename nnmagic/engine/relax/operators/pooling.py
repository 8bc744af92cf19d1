"""Pooling over windows, adaptive and global pooling, and their gradients."""

from __future__ import annotations

from typing import Any

from tvm import topi

from nnmagic.engine.relax.operators.convolution import padding_of
from nnmagic.engine.relax.operators.rule import RULES, Rule, Site, Value, integers, te_of
from nnmagic.relay.expr import Attrs

_POOL = {1: topi.nn.pool1d, 2: topi.nn.pool2d, 3: topi.nn.pool3d}
_ADAPTIVE = {1: topi.nn.adaptive_pool1d, 2: topi.nn.adaptive_pool, 3: topi.nn.adaptive_pool3d}


def _pool(spatial: int, kind: str) -> Rule:
    def compute(attrs: Attrs, data: Any) -> Any:
        return _POOL[spatial](
            data,
            integers(attrs["pool_size"]),
            integers(attrs["strides"]),
            integers(attrs["dilation"]),
            padding_of(attrs, spatial),
            kind,
            bool(attrs["ceil_mode"]),
            str(attrs["layout"]),
            bool(attrs.get("count_include_pad", False)),
        )

    return te_of(compute)


def _adaptive(spatial: int, kind: str) -> Rule:
    """To a given size; without one, to the size that the data has."""

    def rule(site: Site) -> Value:
        (data,) = site.args
        layout = str(site.attrs["layout"])
        axes = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
        given = site.attrs["output_size"]
        if given is None or given == ():
            return data
        size = integers(given) * (spatial if len(integers(given)) == 1 else 1)
        assert len(axes) == spatial
        return site.te(lambda x: _ADAPTIVE[spatial](x, size, kind, layout), data)

    return rule


def _global(kind: str) -> Rule:
    return te_of(lambda attrs, data: topi.nn.global_pool(data, kind, str(attrs["layout"])))


def _gradient(kind: str) -> Rule:
    def compute(attrs: Attrs, grad: Any, data: Any) -> Any:
        return topi.nn.pool_grad(
            grad,
            data,
            integers(attrs["pool_size"]),
            integers(attrs["strides"]),
            padding_of(attrs, 2),
            kind,
            bool(attrs["ceil_mode"]),
            bool(attrs.get("count_include_pad", False)),
            str(attrs["layout"]),
        )

    return te_of(compute)


RULES.update(
    {f"nn.{kind}_pool{n}d": _pool(n, kind) for kind in ("max", "avg") for n in (1, 2, 3)}
    | {f"nn.adaptive_{kind}_pool{n}d": _adaptive(n, kind) for kind in ("max", "avg") for n in (1, 2, 3)}
    | {f"nn.global_{kind}_pool2d": _global(kind) for kind in ("max", "avg")}
    | {f"nn.{kind}_pool2d_grad": _gradient(kind) for kind in ("max", "avg")}
)
