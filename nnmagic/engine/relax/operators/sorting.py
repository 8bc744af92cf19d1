"""Sorting, the largest elements, searching, unique elements."""

from __future__ import annotations

from typing import Any

from tvm import topi

from nnmagic.engine.relax.operators.rule import RULES, Site, Value, integer, te_of
from nnmagic.relay.expr import Attrs


def _sort(attrs: Attrs, data: Any) -> Any:
    return topi.sort(data, axis=_axis(attrs), is_ascend=bool(attrs["is_ascend"]))


def _argsort(attrs: Attrs, data: Any) -> Any:
    return topi.argsort(
        data, axis=_axis(attrs), is_ascend=bool(attrs["is_ascend"]), dtype=str(attrs["dtype"])
    )


def _axis(attrs: Attrs) -> int:
    return integer(attrs["axis"])


def _topk(site: Site) -> Value:
    attrs = site.attrs
    kind = str(attrs["ret_type"])

    def compute(data: Any) -> Any:
        found = topi.topk(
            data, integer(attrs["k"]), _axis(attrs), kind, bool(attrs["is_ascend"]), dtype=str(attrs["dtype"])
        )
        return found if kind == "both" else found[0] if isinstance(found, list) else found

    return site.te(compute, *site.args)


def _searchsorted(attrs: Attrs, sequence: Any, values: Any) -> Any:
    return topi.searchsorted(sequence, values, bool(attrs["right"]), str(attrs["dtype"]))


RULES.update(
    {
        "sort": te_of(_sort),
        "argsort": te_of(_argsort),
        "topk": _topk,
        "searchsorted": te_of(_searchsorted),
    }
)
