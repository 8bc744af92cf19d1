"""What rules read of a call and of its operands."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from nnmagic import relay
from nnmagic.relay.op_call import CallView, TypedCall

MATRIX = relay.TensorType((2, 3), "float32")
PAIR = relay.TupleType((MATRIX, MATRIX))


@dataclass(slots=True)
class Site(CallView, TypedCall):
    """A call as a rule gets it."""

    node: relay.Call
    types: tuple[relay.Type, ...]
    out_type: relay.Type


def test_what_is_read_of_a_call() -> None:
    node = relay.call("sum", [relay.Var("x", MATRIX)], axis=(1,))
    site = Site(node, (MATRIX, PAIR), relay.TensorType((2,), "float32"))
    assert (site.name, site.attrs["axis"], site.span) == ("sum", (1,), node.span)
    assert (site.tensor(0), site.shape(), site.rank(), site.out_shape) == (MATRIX, (2, 3), 2, (2,))
    with pytest.raises(AssertionError):
        site.tensor(1)
