"""Build the body of a function: bindings and checks in their order, then the result."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.importers.origins import current_span
from nnmagic.relay import expr as ir
from nnmagic.relay.failures import Failure
from nnmagic.relay.module import TypeData
from nnmagic.relay.types import GlobalTypeVar


def _assertion() -> TypeData:
    header = GlobalTypeVar("Assertion")
    return TypeData(
        header, (), (ir.Constructor("Holds", (), header, 0), ir.Constructor("Fails", (), header, 1))
    )


#: The data type of checks: no match covers its second constructor, so a failed check is a match error.
ASSERTION = _assertion()
_HOLDS, _FAILS = ASSERTION.constructors


@dataclass(frozen=True, slots=True)
class _Check:
    condition: ir.Expr
    message: str
    span: Span | None


@dataclass(slots=True)
class OnnxBlock:
    """The statements of a function's body, or of a branch."""

    items: list[tuple[ir.Var, ir.Expr] | _Check] = field(default_factory=list)
    bound: dict[ir.Expr, ir.Var] = field(default_factory=dict)

    def bind(self, value: Value, name: str = "v") -> Value:
        """Compute a tensor here, once, for all that uses it from here on."""
        if isinstance(value.expr, ir.Var | ir.Constant):
            return value
        var = self.bound.get(value.expr)
        if var is None:
            var = self.bound[value.expr] = ir.Var(name)
            self.items.append((var, value.expr))
        return Value(var, value.type, value.sizes)

    def check(self, condition: Value, message: str) -> None:
        """Have a call fail with a message unless a condition holds."""
        value = condition.known
        if value is None or not bool(value.all()):
            self.items.append(_Check(condition.expr, message, current_span()))

    def require(self, value: Value, wanted: np.ndarray, what: str) -> None:
        """Have a call fail unless a tensor, which is given at the call, holds what the importer assumed."""
        if not wanted.size:
            return
        equal = value.equal(constant(wanted.astype(value.dtype)))
        condition = op("all", equal) if equal.rank else equal
        self.check(condition, f"{what} must be {wanted.tolist()}: the model was imported for this value")

    def finish(self, result: ir.Expr) -> ir.Expr:
        """Return the statements followed by their result."""
        for item in reversed(self.items):
            if isinstance(item, _Check):
                test = ir.If(item.condition, ir.Call(_HOLDS, ()), ir.Call(_FAILS, ()))
                arm = ir.Clause(ir.PatternConstructor(_HOLDS), result)
                result = ir.Match(
                    test, (arm,), complete=False, assertion=Failure(item.message), span=item.span
                )
            else:
                result = ir.Let(item[0], item[1], result)
        return result
