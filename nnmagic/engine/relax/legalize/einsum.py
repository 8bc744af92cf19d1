"""Legalize Einstein sums: contractions as products of matrices, two operands at a time, from the left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import relax, te, topi

from nnmagic.engine.relax.legalize.matmul import accumulation_dtype, dimensions_agree
from nnmagic.engine.relax.legalize.reduction import accumulate
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.reshaping import element_count, reshape_to
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.schedules.matmul.analysis import PRODUCT
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr


@dataclass(frozen=True, slots=True)
class _Operand:
    """A tensor with a letter for each of its axes, all different."""

    value: Value
    letters: str

    @property
    def sizes(self) -> dict[str, Extent]:
        """Return the size of each letter's axis."""
        return dict(zip(self.letters, shape_of(self.value), strict=True))


def _einsum(call: OpCall) -> Value:
    """Lower to products; of bools, to whether any product is true."""
    operands = list(call.args[0])
    equation = str(call.attrs["equation"]).replace(" ", "")
    if tensor_dtype(operands[0]) != "bool":
        return _sum_of_products(call, equation, operands)
    counts = [call.emit(relax.op.astype(operand, "int64")) for operand in operands]
    return relax.op.astype(call.emit(_sum_of_products(call, equation, counts)), "bool")


def _sum_of_products(call: OpCall, equation: str, values: Sequence[Value]) -> Value:
    inputs, arrow, result = equation.partition("->")
    terms = inputs.split(",")
    plain = arrow and "." not in equation and all(len(set(term)) == len(term) for term in terms)
    if not plain or len(values) == 1:
        return call.te(lambda *tensors: topi.einsum(equation, *tensors), *values)
    total, *others = map(_Operand, values, terms)
    for number, other in enumerate(others, 1):
        later = result + "".join(terms[number + 1 :])
        kept = [letter for letter in dict.fromkeys(total.letters + other.letters) if letter in later]
        is_last = number == len(others)
        total = _contract(call, total, other, result if is_last else "".join(kept))
    return total.value


def _contract(call: OpCall, lhs: _Operand, rhs: _Operand, result: str) -> _Operand:
    """Multiply two operands, and sum over the letters that the result does not have."""
    lhs, rhs = (_sum_alone(call, one, other.letters + result) for one, other in ((lhs, rhs), (rhs, lhs)))
    for letter in set(lhs.letters) & set(rhs.letters):
        agree = dimensions_agree(lhs.sizes[letter], rhs.sizes[letter])
        call.require(agree, f"the dimension {letter!r} of the equation differs")
    summed = [letter for letter in lhs.letters if letter not in result]
    if not summed:
        equation = f"{lhs.letters},{rhs.letters}->{result}"
        product = call.te(lambda a, b: topi.einsum(equation, a, b), lhs.value, rhs.value)
        return _Operand(call.emit(product), result)
    free = [letter for letter in result if (letter in lhs.letters) != (letter in rhs.letters)]
    if free and free[0] not in lhs.letters:
        lhs, rhs = rhs, lhs
    batch = "".join(letter for letter in result if letter in lhs.letters and letter in rhs.letters)
    rows, columns = ("".join(letter for letter in free if letter in one.letters) for one in (lhs, rhs))
    sizes = {**lhs.sizes, **rhs.sizes}
    inner = "".join(summed)
    a = _merge(call, lhs, batch, {rows: _ROW, inner: _INNER})
    b = _merge(call, rhs, batch, {inner: _INNER, columns: _COLUMN})
    product = call.emit(call.te(lambda x, y: _product(x, y, a.letters, b.letters, batch), a.value, b.value))
    order = batch + rows + columns
    if len(rows) != 1 or len(columns) != 1:
        product = call.emit(reshape_to(product, [sizes[letter] for letter in order]))
    return _permute(call, _Operand(product, order), result)


def _sum_alone(call: OpCall, operand: _Operand, needed: str) -> _Operand:
    """Sum over the letters that nothing else needs."""
    alone = [axis for axis, letter in enumerate(operand.letters) if letter not in needed]
    if not alone:
        return operand
    letters = "".join(letter for letter in operand.letters if letter in needed)
    return _Operand(call.emit(call.te(lambda data: accumulate(data, alone), operand.value)), letters)


#: What stands for the axes of rows, of columns and of the inner dimension of a product of matrices.
_ROW, _COLUMN, _INNER = "012"


def _merge(call: OpCall, operand: _Operand, batch: str, groups: Mapping[str, str]) -> _Operand:
    """Make one axis of each group of letters, which is named as the mapping says.

    Axes of the batch, and of groups of one letter, stay where they are if every other group is contiguous.
    """
    if not all(group in operand.letters for group in groups):
        operand = _permute(call, operand, batch + "".join(groups))
    sizes, letters = operand.sizes, operand.letters
    shape: list[Extent] = []
    names = ""
    while letters:
        group = next((group for group in groups if group and letters.startswith(group)), letters[0])
        shape.append(element_count([sizes[letter] for letter in group]))
        names += groups.get(group, group)
        letters = letters[len(group) :]
    if "" in groups:  # a vector is a matrix of one row or column
        shape.append(1)
        names += groups[""]
    if len(shape) == len(sizes) and "" not in groups:
        return _Operand(operand.value, names)
    return _Operand(call.emit(reshape_to(operand.value, shape)), names)


def _product(lhs: Tensor, rhs: Tensor, left_names: str, right_names: str, batch: str) -> Tensor:
    """Multiply the matrices of a batch, whose axes may be in any order."""
    sizes = dict(zip(left_names + right_names, [*lhs.shape, *rhs.shape], strict=True))
    wide = accumulation_dtype(lhs.dtype, "")
    k = te.reduce_axis((0, sizes[_INNER]), "k")

    def element(*at: Index) -> PrimExpr:
        index = {_INNER: k, **dict(zip(batch + _ROW + _COLUMN, at, strict=True))}
        a, b = (
            tensor(*(index[name] for name in names)).astype(wide)
            for tensor, names in ((lhs, left_names), (rhs, right_names))
        )
        return te.sum(a * b, axis=k)

    shape = [sizes[name] for name in batch + _ROW + _COLUMN]
    product = te.compute(shape, element, name="product", attrs={KIND: PRODUCT})
    return product if wide == lhs.dtype else topi.cast(product, lhs.dtype)


def _permute(call: OpCall, operand: _Operand, letters: str) -> _Operand:
    if operand.letters == letters:
        return operand
    axes = [operand.letters.index(letter) for letter in letters]
    return _Operand(call.emit(relax.op.permute_dims(operand.value, axes)), letters)


RULES["einsum"] = _einsum
