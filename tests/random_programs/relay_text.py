"""Write steps as Relay text, and evaluate Relay text with the reference in the widest dtypes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nnmagic.engine.numpy import Interpreter
from nnmagic.relay.expr import Call, Expr, Function, Var, constant
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import substitute
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.types import AnyDim, TensorType
from tests.random_programs.environment import Value
from tests.random_programs.steps import Language, Steps

VERSION = '#[version = "0.0.5"]\n'
_DTYPES = ["bool", "uint8", "int8", "int32", "int64", "float32", "float64"]
#: A function of the module that expressions may call.
HELPER = "def @helper(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {\n  exp(%x)\n}\n\n"


def widen(text: str) -> str:
    """Return a text with float64 and int64 instead of narrower dtypes."""
    text = re.sub(r"\bfloat32\b", "float64", text)
    return re.sub(r"(?<=\df)\b", "64", re.sub(r"\b(?:u?int8|int32)\b", "int64", text))


def _type_of(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_type_of, value))})"
    assert isinstance(value, np.ndarray)
    dims = ", ".join(map(str, value.shape))
    return f"Tensor[({dims}), {value.dtype}]"


def _function(text: str, values: Mapping[str, object], helper: str = HELPER) -> Module:
    """Return the typed module that computes an expression of some values, in their order."""
    params = ", ".join(f"%v{name[1:]}: {_type_of(value)}" for name, value in values.items())
    body = re.sub(r"%(?=[\dp]\w*)", "%v", text)
    helper = helper if "@helper" in text else ""
    return infer_type(parse_module(f"{VERSION}{helper}def @main({params}) {{\n{body}\n}}"))


def _wide(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_wide, value))
    assert isinstance(value, np.ndarray)
    return value.astype({"f": np.float64, "b": np.bool_}.get(value.dtype.kind, np.int64))


def evaluate(
    text: str, values: Mapping[str, object], observe: Callable[[Expr, object], None] | None = None
) -> object:
    """Evaluate an expression in float64 and int64; ``observe`` sees every value on the way."""
    wide = {name: _wide(value) for name, value in values.items()}
    with np.errstate(all="ignore"):
        return Interpreter(_function(widen(text), wide, widen(HELPER)), observe).run(
            "main", list(wide.values())
        )


def run(text: str, values: Mapping[str, object]) -> object:
    """Evaluate an expression in the widest dtypes; return it in those that it has."""

    def narrow(value: object, type_: object) -> object:
        if isinstance(value, tuple):
            return tuple(narrow(*pair) for pair in zip(value, type_.fields, strict=True))  # type: ignore[attr-defined]
        assert isinstance(type_, TensorType)
        assert tuple(type_.shape) == np.shape(value), (
            f"{text} has the type {type_}, its value {np.shape(value)}"
        )
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(type_.dtype)

    result_type = _function(text, values).functions["main"].body.checked_type
    return narrow(evaluate(text, values), result_type)


def _annotate(param: Value) -> str:
    dims = ", ".join("?" if isinstance(dim, str) else str(dim) for dim in param.dims)
    return f"{param.name}: Tensor[({dims}), {param.kind}]"


def _source(steps: Steps) -> str:
    results = [statement.name for statement in steps.returned]
    body = results[0] if len(results) == 1 else f"({', '.join(results)})"
    lines = [f"  {statement.name} = {statement.text};" for statement in steps.statements]
    params = ", ".join(map(_annotate, steps.params))
    helper = HELPER if any("@helper" in statement.text for statement in steps.statements) else ""
    return "\n".join([f"{VERSION}{helper}def @main({params}) {{", *lines, f"  {body}", "}", ""])


def module_of(steps: Steps) -> Module:
    """Return the typed module of steps: with names of dimensions, and with constants where they are."""
    untyped = parse_module(steps.source)
    made: dict[Expr, Expr] = {}
    params: list[Var] = []
    function = untyped.functions["main"]
    for param, value in zip(function.params, steps.params, strict=True):
        if value.constant:
            assert value.arrays[0] is not None
            made[param] = constant(value.arrays[0])
            continue
        dims = tuple(AnyDim(dim) if isinstance(dim, str) else dim for dim in value.dims)
        params.append(Var(param.name_hint, TensorType(dims, value.kind)))  # type: ignore[arg-type]
        made[param] = params[-1]
    main = Function(tuple(params), substitute(function.body, made))
    return infer_type(Module({**untyped.functions, "main": main}))


def _list(numbers: Sequence[object]) -> str:
    return str(list(numbers))


RELAY = Language(
    param=lambda number: f"%p{number}",
    result=lambda number: f"%{number}",
    dtypes={name: np.dtype(name) for name in _DTYPES},
    run=run,
    source=_source,
    list=_list,
    item=lambda name, index: f"{name}.{index}",
)


def is_linear(node: Expr) -> bool:
    """Whether an operator adds products: its partial sums may be larger than its result."""
    name = getattr(node.op, "name", "") if isinstance(node, Call) else ""
    return name in ("sum", "mean", "cumsum", "nn.dense", "nn.matmul", "nn.batch_matmul") or "conv" in name
