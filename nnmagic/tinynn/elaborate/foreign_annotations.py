"""Elaborate annotations in the spelling of NumPy's typing, jaxtyping and ``typing.Annotated``."""

from __future__ import annotations

from collections.abc import Sequence

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.tinynn.builtins.argument_checks import WHICH_DTYPES, dtype_meant, static_value_or_none
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.expressions import evaluate_operands
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.tree_building import is_subscript
from nnmagic.tinynn.types.annotations import (
    DESTINATIONS,
    Destination,
    DType,
    DTypeKind,
    OpenTensor,
    OpenType,
    Tensor,
)
from nnmagic.tinynn.types.foreign_types import ForeignTypeError, Shape, tensor_of
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe


def foreign_subscript(ctx: Elaboration, name: str, index: Sequence[ast.Expr], span: Span) -> v.Value:
    """Return what ``np.ndarray[...]``, ``NDArray[...]``, ``np.dtype[...]`` or ``Annotated[...]`` says."""
    match name, index:
        case "Annotated", [base, *metadata] if metadata:
            return _unwrap_annotated(ctx, base, metadata)
        case ("NDArray", [element]) | ("ndarray", [_, element]):
            shape = _shape(index[0]) if name == "ndarray" else None
            dtype = _element(ctx, element)
            return dtype if v.is_failed(dtype) else _tensor(shape, dtype)
        case "dtype", [element]:
            return _element(ctx, element)
        case (("Optional" | "Union"), [_, *_]):
            return v.Known(OpenType())
    example = {"NDArray": "NDArray[np.float32]", "dtype": "np.dtype[np.float32]"}.get(
        name, 'Annotated[np.ndarray, Tensor[("n", 3), f32]]'
    )
    raise v.RefusalError(f"`{name}` is not subscripted like this", span, hint=f"write it as in {example}")


def _tensor(shape: Shape | None, dtype: v.Value) -> v.Value:
    if isinstance(dtype, v.Known) and isinstance(dtype.value, DType | DTypeKind):
        return v.Known(OpenTensor(shape, dtype.value))
    return v.Known(OpenTensor(shape))


def _unwrap_annotated(ctx: Elaboration, base: ast.Expr, metadata: Sequence[ast.Expr]) -> v.Value:
    """Return the annotation of a cell in the metadata of ``Annotated``; if there is none, its first type."""
    for item in metadata:
        if isinstance(item, ast.Constant):
            continue
        if _is_own(item):
            return ctx.evaluate(item)
        with ctx.trial():  # what no cell knows is for other readers
            value = ctx.evaluate(item)
        if _is_annotation(value):
            return value
    return ctx.evaluate(base)


def _is_own(part: ast.Expr) -> bool:
    """Return whether metadata is written as ``Tensor[...]`` and the like."""
    return any(_subscripts(part, name) is not None for name in ("Tensor", *DESTINATIONS))


def _is_annotation(value: v.Value) -> bool:
    match value:
        case v.Known(value=DType() | Tensor() | OpenTensor() | Destination()) | v.TypeOf():
            return True
        case v.TupleConstructor(name="Tensor"):
            return True
    return False


def _shape(written: ast.Expr) -> Shape | None:
    """Return the shape that NumPy's first parameter of ``ndarray`` says: ``tuple[int, Literal[3]]``."""
    subscripts = _subscripts(written, "tuple")
    if subscripts is None or any(isinstance(part, tree.EllipsisLiteral) for part in subscripts):
        return None
    return tuple(map(_size, subscripts))


def _size(written: ast.Expr) -> int | None:
    match _subscripts(written, "Literal"):
        case [ast.Constant(value=int() as size)]:
            return size
    return None


def _subscripts(written: ast.Expr, owner: str) -> Sequence[ast.Expr] | None:
    """Return what stands in the brackets after a name, or after a name of a module; else None."""
    if not is_subscript(written):
        return None
    name = written.params[0]
    last = (
        name.id.name if isinstance(name, ast.Var) else name.field.name if isinstance(name, ast.Attr) else ""
    )
    if last != owner:
        return None
    values: Sequence[ast.Expr] = written.params[1].values
    if len(values) == 1 and isinstance(values[0], ast.Tuple):
        return tuple(values[0].values)
    return values


def _element(ctx: Elaboration, written: ast.Expr) -> v.Value:
    """Return the dtype or the kind of dtypes that an element type says; ``...`` for any."""
    (operand,) = evaluate_operands(ctx, [written])
    match operand.value:
        case value if v.is_failed(value):
            return v.FAILED
        case v.Known(value=DTypeKind() | OpenType()) | v.TupleConstructor(name="Any"):
            return operand.value
        case value if not isinstance(static_value_or_none(value), str) and dtype_meant(value) is not None:
            return v.Known(dtype_meant(value))
    message = f"the elements of an array cannot be {describe(operand.value)}"
    raise v.RefusalError(message, operand.span, hint=WHICH_DTYPES)


def kind_subscript(ctx: Elaboration, kind: DTypeKind, index: Sequence[ast.Expr], span: Span) -> v.Value:
    """Return what jaxtyping's ``Float[Array, "n 3"]`` says, or NumPy's ``np.floating[Any]``."""
    if len(index) == 1:
        return v.Known(kind)
    operands = evaluate_operands(ctx, index)
    if any(v.is_failed(operand.value) for operand in operands):
        return v.FAILED
    dims = static_value_or_none(operands[-1].value)
    if len(operands) != 2 or not isinstance(dims, str) or not _is_array(operands[0]):
        is_numpy = kind.name.islower()
        hint = f"write NDArray[np.{kind.name}]" if is_numpy else f'write {kind.name}[np.ndarray, "n 3"]'
        raise v.RefusalError(f"`{kind.name}` takes an array class and the dimensions", span, hint=hint)
    try:
        tensor = tensor_of(kind, dims)
    except ForeignTypeError as problem:
        raise v.RefusalError(f"this is {problem}", operands[-1].span) from None
    return v.Known(tensor)


def _is_array(operand: v.Operand) -> bool:
    match operand.value:
        case v.TupleConstructor(name="ndarray" | "NDArray" | "Tensor" | "Any"):
            return True
        case v.BuiltinName(builtin=builtin):
            return builtin.name == "ndarray"
        case v.Known(value=OpenTensor()):
            return True
    return False
