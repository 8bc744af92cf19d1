"""Build a module from another front end, with errors located in that front end's source."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from numbers import Real

import numpy as np

from nnmagic.diagnostics import CompileError, Diagnostic, RelayError, Source, Span, closest, kind_of
from nnmagic.relay.expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from nnmagic.relay.expr import constant as constant_of
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.calls import call as call_operator
from nnmagic.relay.ops.calls import resolve
from nnmagic.relay.ops.declaration import RelationError
from nnmagic.relay.types import NUMPY_DTYPES, AnyDim, Dim, TensorType, Type
from nnmagic.tracebacks import short_errors

#: What stands for an expression: numbers and arrays become constants.
Operand = Expr | Real | float | np.ndarray


class Builder:
    """Build a typed module, function by function.

        b = Builder()
        x = b.var("x", ("n", 3), "float32")
        b.function("main", [x], b.call("nn.relu", b.call("add", x, 1.0)))
        module = b.module()

    A size may be a number or a name; sizes of one name are equal. With the source of another language,
    ``b.span(...)`` marks places in it, which errors then point at.
    """

    def __init__(self, text: str = "", filename: str = "<source>") -> None:
        self._source = Source(filename, text)
        self._functions: dict[str, Function] = {}

    def span(
        self, line: int, column: int, end_line: int | None = None, end_column: int | None = None
    ) -> Span:
        """Return a place in the source: lines and columns count from 1, the end is exclusive."""
        last = line if end_line is None else end_line
        end = column + 1 if end_column is None else end_column
        return Span(self._source.filename, line, column, last, end, self._source)

    @short_errors
    def tensor(self, shape: Sequence[int | str], dtype: str = "float32") -> TensorType:
        """Return a tensor type; a text in the shape is the name of a size that each call decides.

        Raises TypeError or ValueError for what is no size or dtype.
        """
        if isinstance(shape, str):
            raise TypeError(f"a shape is a tuple of sizes: write ({shape!r},), not {shape!r}")
        if dtype not in NUMPY_DTYPES:
            raise ValueError(f"there is no dtype {dtype!r}; the dtypes are {', '.join(NUMPY_DTYPES)}")
        return TensorType(tuple(map(_dim, shape)), dtype)

    @short_errors
    def var(
        self,
        name: str,
        shape: Sequence[int | str] | Type = (),
        dtype: str = "float32",
        *,
        span: Span | None = None,
    ) -> Var:
        """Return a new variable, of a tensor type or another ``Type``; each is used in one function."""
        is_type = not isinstance(shape, Sequence)
        return Var(name, shape if is_type else self.tensor(shape, dtype), span=span)  # type: ignore[arg-type]  # checked

    def constant(self, value: object, dtype: str | None = None, *, span: Span | None = None) -> Constant:
        """Return a constant. Python's floats become float32 and its ints int32 without a ``dtype``."""
        return constant_of(value, dtype, span=span)

    @short_errors
    def call(self, op: str, *args: Operand, span: Span | None = None, **attrs: object) -> Call:
        """Return a call of an operator, by its name or the last part of it; attributes have defaults.

        Raises RelayError, at ``span``, for an unknown operator, attribute or number of arguments.
        """
        operator = resolve(op)
        if operator is None:
            close = closest(op, OPERATORS)
            hint = f"did you mean {close}?" if close else None
            raise RelayError([Diagnostic(f"there is no operator {op!r}", span, hint)])
        operands = [self._operand(arg, span) for arg in args]
        try:
            return call_operator(operator.name, operands, span, **attrs)
        except CompileError:
            raise
        except (RelationError, ValueError, TypeError, LookupError) as error:
            raise RelayError([Diagnostic(str(error), span)]) from None

    @short_errors
    def call_function(self, name: str, *args: Operand, span: Span | None = None) -> Call:
        """Return a call of a function of the module, which may be defined later, or be the caller itself."""
        operands = tuple(self._operand(arg, span) for arg in args)
        return Call(GlobalVar(name, span=span), operands, span=span)

    def tuple(self, *fields: Operand, span: Span | None = None) -> Tuple:
        """Return a tuple."""
        return Tuple(tuple(self._operand(field, span) for field in fields), span=span)

    def get(self, value: Expr, index: int, *, span: Span | None = None) -> TupleGetItem:
        """Return a part of a tuple."""
        return TupleGetItem(value, index, span=span)

    def if_(self, cond: Operand, then: Operand, otherwise: Operand, *, span: Span | None = None) -> If:
        """Return ``then`` or ``otherwise``, of which only one is computed; ``cond`` is a bool of rank 0."""
        parts = (self._operand(each, span) for each in (cond, then, otherwise))
        return If(*parts, span=span)

    def let(self, var: Var, value: Operand, body: Operand, *, span: Span | None = None) -> Let:
        """Return ``body``, in which ``var`` stands for ``value``.

        It is seldom needed: an expression that is used twice is computed once.
        """
        return Let(var, self._operand(value, span), self._operand(body, span), span=span)

    @short_errors
    def function(
        self,
        name: str,
        params: Sequence[Var],
        body: Operand,
        ret_type: Type | None = None,
        *,
        span: Span | None = None,
    ) -> Function:
        """Define a function of the module. A recursive one needs its ``ret_type``.

        Raises RelayError if there is one of this name.
        """
        if name in self._functions:
            raise RelayError([Diagnostic(f"the function @{name} is defined twice", span)])
        function_ = Function(tuple(params), self._operand(body, span), ret_type, span=span)
        self._functions[name] = function_
        return function_

    @short_errors
    def module(self) -> Module:
        """Return the module with types inferred. Raises RelayError with every error, located."""
        return infer_type(Module(dict(self._functions)), look_into_callees=True)

    def _operand(self, value: object, span: Span | None) -> Expr:
        if isinstance(value, Expr):
            return value
        if isinstance(value, bool | Real | np.ndarray | np.generic):
            return self.constant(value, "bool" if isinstance(value, bool) else None, span=span)
        raise TypeError(f"an operand must be a relay expression, a number or an array, not {kind_of(value)}")


def _dim(size: object) -> Dim:
    """Return a size as a type holds it: a name, or a number that is not negative."""
    if isinstance(size, str) and size:
        return AnyDim(size)
    if isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0:
        return operator.index(size)
    raise ValueError(f"a size is a name or a number that is not negative, not {size!r}")
