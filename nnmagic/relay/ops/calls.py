"""Operators as people call them: by short names, with the defaults of Relay's Python functions."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.diagnostics import Span
from nnmagic.relay.expr import Call, Expr, OpRef, constant
from nnmagic.relay.ops.declaration import OPERATORS, Operator, RelationError


def resolve(name: str) -> Operator | None:
    """The operator that a name means.

    ``nn.relu`` and ``add`` name themselves; ``relu`` is the last component of one operator only. None where
    there is no such operator or several.
    """
    if name in OPERATORS:
        return OPERATORS[name]
    found = _by_last_component().get(name, [])
    return found[0] if len(found) == 1 else None


def call(name: str, args: Sequence[Expr], span: Span | None = None, **attrs: object) -> Call:
    """A call of an operator with complete attributes, as Relay's Python function of that name makes it.

    ``args`` are the operator's arguments in order; those at the end that have a number as default may be left
    out. Raises KeyError for an unknown operator and RelationError for wrong attributes.
    """
    operator = OPERATORS[name]
    given = {operator.keywords.get(key, key): value for key, value in attrs.items()}
    defaults = operator.arg_defaults
    missing = operator.args[len(args) :]
    complete = [*args, *(constant(defaults[argument]) for argument in missing if argument in defaults)]
    if name == "arange":
        complete, given = _arange(complete, given)
    return Call(
        OpRef(name, span=span), tuple(complete), operator.complete_attrs(given, from_call=True), span=span
    )


def _arange(args: list[Expr], attrs: dict[str, object]) -> tuple[list[Expr], dict[str, object]]:
    """``arange(stop)`` starts at 0 and steps by 1; the attributes repeat the arguments."""
    dtype = attrs.get("dtype", "float32")
    wanted = str(getattr(dtype, "name", dtype))
    if not 1 <= len(args) <= 3:
        raise RelationError(f"arange takes 1 to 3 arguments (start, stop, step), got {len(args)}")
    if len(args) == 1:
        args = [constant(0, wanted), *args]
    if len(args) == 2:
        args = [*args, constant(1, wanted)]
    return args, {**attrs, **dict(zip(("start", "stop", "step"), args, strict=True))}


_LAST_COMPONENT: dict[str, list[Operator]] = {}


def _by_last_component() -> dict[str, list[Operator]]:
    if not _LAST_COMPONENT:
        for operator in OPERATORS.values():
            _LAST_COMPONENT.setdefault(operator.name.rpartition(".")[2], []).append(operator)
    return _LAST_COMPONENT
