"""Declare matrix products."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, DTYPE, OPTIONAL_DIM, STR
from nnmagic.relay.ops.declaration import Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import Shape, broadcast_dim, is_unknown, merge_dim
from nnmagic.relay.ops.relations import dtype_or, require_same, require_type, tensor, tensors_of_tuple
from nnmagic.relay.types import AnyDim, Dim, TensorType, Type, VarDim

declare = Family("dense", Trait.SPECULATABLE).declare


def _units(attrs: Attrs) -> Dim | None:
    units = attrs["units"]
    return units if isinstance(units, int | AnyDim | VarDim) else None


def _rows(types: Sequence[Type | None], transpose: bool) -> tuple[Shape, Dim]:
    """Return the first operand's dimensions without the one that is summed over, and that one."""
    data = types[0]
    if not isinstance(data, TensorType):
        raise RelationError("expected a tensor, found {data}", 0, data=data or "no type")
    rank = 2 if transpose else 1
    if len(data.shape) < rank:
        raise RelationError(f"expected a tensor of rank {rank} or more, found {{data}}", 0, data=data)
    *outer, last = data.shape
    if transpose:
        return (*outer[:-1], last), outer[-1]
    return tuple(outer), last


def _product(types: Sequence[Type], attrs: Attrs, *, transpose_a: bool, transpose_b: bool) -> TensorType:
    # Relay compares the dimensions that are summed over only if ``units`` is given.
    outer, reduced = _rows(types, transpose_a)
    data, weight = tensor(types, 0), tensor(types, 1)
    units = _units(attrs)
    if units is not None:
        require_type(weight, (units, reduced) if transpose_b else (reduced, units), "the second operand", 1)
    elif len(weight.shape) != 2:
        raise RelationError("expected a matrix, found {weight}", 1, weight=weight)
    else:
        units = weight.shape[0 if transpose_b else 1]
    return TensorType((*outer, units), dtype_or(attrs, "out_dtype", data.dtype))


def _matmul(types: Sequence[Type], attrs: Attrs) -> TensorType:
    flags = {name: bool(attrs[name]) for name in ("transpose_a", "transpose_b")}
    return _product(types, attrs, **flags)


def _assume_dense(types: Sequence[Type | None], attrs: Attrs) -> Sequence[Type | None]:
    transpose_a, transpose_b = bool(attrs.get("transpose_a")), bool(attrs.get("transpose_b", True))
    units = _units(attrs)
    if not isinstance(types[0], TensorType) or types[1] is not None or units is None:
        return types
    _, reduced = _rows(types, transpose_a)
    shape = (units, reduced) if transpose_b else (reduced, units)
    return [types[0], TensorType(shape, types[0].dtype)]


def _batch_matmul(types: Sequence[Type], attrs: Attrs) -> TensorType:
    lhs, rhs = tensor(types, 0, rank=3), tensor(types, 1, rank=3)
    batch_a, rows, inner_a = lhs.shape
    batch_b, inner_b, columns = rhs.shape
    if attrs["transpose_a"]:
        rows, inner_a = inner_a, rows
    if attrs["transpose_b"]:
        inner_b, columns = columns, inner_b
    require_same(inner_a, inner_b, "the dimensions that are summed over differ", 0, 1)
    batch = broadcast_dim(batch_a, batch_b)
    if batch is None:
        raise RelationError("the batches of {left} and {right} differ", 0, 1, left=lhs, right=rhs)
    unknown = next((dim for dim in (batch_a, batch_b) if is_unknown(dim)), batch)  # a static one does not win
    return TensorType((unknown, rows, columns), dtype_or(attrs, "out_dtype", lhs.dtype))


def _einsum(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Bind the equation's letters to dimensions; ``...`` stands for leading ones that broadcast."""
    operands = tensors_of_tuple(types)
    if len({operand.dtype for operand in operands}) > 1:
        raise RelationError("the tensors must have one dtype, found {types}", 0, types=types[0])
    equation = str(attrs["equation"]).replace(" ", "")
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands):
        message = f"the equation {equation!r} has {len(terms)} operands, found {len(operands)}"
        raise RelationError(message, 0, attr="equation")
    sizes: dict[str, Dim] = {}
    ellipsis: Shape = ()
    for term, operand in zip(terms, operands, strict=True):
        ellipsis = _einsum_term(term, operand, sizes, ellipsis)
    if not arrow:  # NumPy's implicit form: the letters that occur once, in alphabetical order
        once = sorted(letter for letter in sizes if inputs.count(letter) == 1)
        output = ("..." if "..." in inputs else "") + "".join(once)
    shape: list[Dim] = []
    for letter in output.replace("...", "."):
        if letter == ".":
            shape += ellipsis
        elif letter not in sizes:
            message = f"the equation's result has {letter!r}, which no operand has"
            raise RelationError(message, 0, attr="equation")
        else:
            shape.append(sizes[letter])
    return TensorType(tuple(shape), operands[0].dtype)


def _einsum_term(term: str, operand: TensorType, sizes: dict[str, Dim], ellipsis: Shape) -> Shape:
    from nnmagic.relay.ops.dims import broadcast_shapes

    before, dots, after = term.partition("...")
    letters = before + after
    spare = len(operand.shape) - len(letters)
    if spare < 0 or (spare and not dots) or not all(letter.isalpha() for letter in letters):
        message = "the term {term!r} does not fit {operand}"
        raise RelationError(message, 0, attr="equation", term=term, operand=operand)
    middle = operand.shape[len(before) : len(before) + spare]
    if dots:
        merged = broadcast_shapes(ellipsis, middle)
        if merged is None:
            raise RelationError("the dimensions of '...' do not broadcast together", 0, attr="equation")
        ellipsis = merged
    named = operand.shape[: len(before)] + operand.shape[len(before) + spare :]
    for letter, dim in zip(letters, named, strict=True):
        size = sizes.setdefault(letter, dim)
        require_same(size, dim, f"the dimension {letter!r} of the equation differs", 0, attr="equation")
        sizes[letter] = merge_dim(size, dim)
    return ellipsis


_UNITS = (Attr("units", OPTIONAL_DIM, call_default=None), Attr("out_dtype", DTYPE, ""))

declare(
    "nn.dense(data, weight)",
    lambda types, attrs: _product(types, attrs, transpose_a=False, transpose_b=True),
    "Product of the data's last axis with the rows of a weight matrix: data @ weight.T.",
    *_UNITS,
    traits=Trait.HEAVY | Trait.CHECKS_SIZES | Trait.PRODUCT,
    assume=_assume_dense,
)
declare(
    "nn.matmul(tensor_a, tensor_b)",
    _matmul,
    "Matrix product; each operand may be taken transposed.",
    *_UNITS,
    Attr("transpose_a", BOOL, default=False),
    Attr("transpose_b", BOOL, default=False),
    numpy="numpy.matmul",
    traits=Trait.HEAVY | Trait.CHECKS_SIZES | Trait.PRODUCT,
    assume=_assume_dense,
)
declare(
    "nn.batch_matmul(tensor_a, tensor_b)",
    _batch_matmul,
    "Matrix product of each pair of a batch; the second operand is taken transposed by default.",
    Attr("out_dtype", DTYPE, ""),
    Attr("transpose_a", BOOL, default=False),
    Attr("transpose_b", BOOL, default=False, call_default=True),
    numpy="numpy.matmul",
    traits=Trait.HEAVY | Trait.CHECKS_SIZES | Trait.PRODUCT,
)
declare(
    "einsum(data)",
    _einsum,
    "Sum of products as an equation in Einstein's notation says.",
    Attr("equation", STR),
    numpy="numpy.einsum",
    traits=Trait.HEAVY | Trait.VIEW,
    variadic=True,
)
