"""Write loops as Relay functions that call themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nnmagic.importers.onnx.blocks import OnnxBlock
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import merge
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TensorType, TupleType, Type

_COUNTER = TensorType((), "int64")
_FLAG = TensorType((), "bool")
_TRUE = ir.constant(np.bool_(1))

#: Builds a round in a block, from its number and what is carried: whether another follows (None: it does),
#: and what is carried on.
Round = Callable[[OnnxBlock, Value, Sequence[Value]], "tuple[Value | None, Sequence[Value]]"]


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """What a loop leaves: the number of its rounds and what was carried."""

    count: Value
    carried: list[Value]


def carried_types(start: Sequence[Value], build: Round) -> tuple[list[TensorType], Value | None]:
    """Return the types that what is carried has in every round, and the condition that a round gives."""
    types = [value.type for value in start]
    while True:
        counter = Value(ir.Var("step", _COUNTER), _COUNTER)
        again, after = build(OnnxBlock(), counter, [Value(ir.Var("x", type_), type_) for type_ in types])
        merged = [merge(old, new.type) for old, new in zip(types, after, strict=True)]
        if merged == types:
            return types, again
        types = merged


def emit_loop(
    block: OnnxBlock, start: Sequence[Value], limit: Value | None, condition: Value | None, build: Round
) -> LoopEnd:
    """Emit a loop.

    Args:
        block: where it stands.
        start: what is carried into the first round.
        limit: the largest number of rounds, an int64; None for no limit.
        condition: whether there is a first round; None if only the limit decides.
        build: builds a round.

    """
    types, _ = carried_types(start, build)
    bound = [block.bind(value) for value in start]
    limit = None if limit is None else block.bind(limit, "count")
    function = ir.Var("loop")
    counter = Value(ir.Var("step", _COUNTER), _COUNTER)
    params = [Value(ir.Var(f"carried_{index}", type_), type_) for index, type_ in enumerate(types)]
    flag = Value(ir.Var("again", _FLAG), _FLAG) if condition is not None else None
    inner = OnnxBlock()
    again, after = build(inner, counter, params)
    flags: list[ir.Expr] = []
    if flag is not None:
        flags = [again.expr if again is not None else _TRUE]
    next_ = ir.Call(function, ((counter + 1).expr, *flags, *(value.expr for value in after)))
    tests = [] if limit is None else [counter < limit]
    tests += [] if flag is None else [flag]
    if not tests:
        raise UnsupportedError("a loop has neither a trip count nor a condition")
    test = tests[0] if len(tests) == 1 else op("logical_and", *tests)
    result: ir.Expr = ir.Tuple((counter.expr, *(value.expr for value in params)))
    result_type: Type = TupleType((_COUNTER, *types))
    body = ir.If(test.expr, inner.finish(next_), result)
    flag_params = [] if flag is None else [flag]
    variables = [value.expr for value in (counter, *flag_params, *params)]
    definition = ir.Function(tuple(var for var in variables if isinstance(var, ir.Var)), body, result_type)
    block.items.append((function, definition))
    first = [] if condition is None else [condition.expr]
    call = ir.Call(function, (constant(0, "int64").expr, *first, *(value.expr for value in bound)))
    state = ir.Var("after")
    block.items.append((state, call))
    carried_values = [
        Value(ir.TupleGetItem(state, index), type_) for index, type_ in enumerate((_COUNTER, *types))
    ]
    return LoopEnd(carried_values[0], carried_values[1:])
