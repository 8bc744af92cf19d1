"""Define NumPy's functions of sets: the distinct elements, where and how often they occur, membership.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.set.html
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnmagic.tinynn.builtins.argument_checks import flag, formula, one_axis, pair
from nnmagic.tinynn.builtins.numpy.complex_numbers import imaginary_part, real_part
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import concatenate, size_along, slice_axis
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, free_function, numpy_function
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.values.values import LoopCall, Operand, TupleOf, Value

_NAMES = "x=ar input=ar"


@dataclass(frozen=True, slots=True)
class _Runs:
    """The elements in ascending order, where equal ones are next to each other.

    ``order``: where each of them is in the flattened tensor, if that is needed. ``is_first``: whether it
    begins a run of equal ones. ``first``: the places of those that do.
    """

    order: Formula
    ordered: Formula
    is_first: Formula
    first: Formula

    def values(self) -> Formula:
        """Return the distinct elements."""
        return _at(self.ordered, self.first)

    def indices(self) -> Formula:
        """Return where each distinct element occurs first."""
        return _at(self.order, self.first)

    def inverse(self) -> Formula:
        """Return for each element which of the distinct ones it is."""
        number = self.is_first.cast("int64").op("cumsum", axis=0, dtype="int64") - 1
        zeros = self.order.op("zeros_like")
        return zeros.op("scatter_nd", self.order.expand(0), number, mode="update")

    def counts(self, call: Arguments) -> Formula:
        """Return how often each distinct element occurs."""
        total = size_along(self.ordered, 0, self.first).reshape((1,))
        begins = concatenate(call, [self.first, total], 0)
        return slice_axis(begins, 0, 1, None) - self.first


def _at(data: Formula, places: Formula) -> Formula:
    return data.op("take", places, axis=0, mode="fast")


def _order(data: Formula) -> Formula:
    return data.op("argsort", axis=0, is_ascend=True, dtype="int64")


def _runs(call: Arguments, data: Formula, *, one_nan: bool, with_order: bool) -> _Runs:
    """Sort the elements of a tensor; complex ones by the real part, then by the imaginary part.

    ``with_order``: whether the order of the elements is needed, which takes longer to find.
    """
    flat = data.flat()
    keys = flat.cast("int8") if data.dtype == "bool" else flat
    if data.is_complex:
        order = _order(imaginary_part(flat))
        order = _at(order, _order(_at(real_part(flat), order)))
        ordered = _at(flat, order)
    elif with_order:
        order = _order(keys)
        ordered = _at(flat, order)
    else:
        order = ordered = keys.op("sort", axis=0)
        if data.dtype == "bool":
            ordered = ordered.truth()
    later, earlier = slice_axis(ordered, 0, 1, None), slice_axis(ordered, 0, 0, -1)
    if data.dtype == "bool":
        later, earlier = later.cast("int8"), earlier.cast("int8")
    differs = later.differs(earlier)
    if one_nan and (data.is_float or data.is_complex):
        differs = differs & ~(later.differs(later) & earlier.differs(earlier))
    begin = slice_axis(keys, 0, 0, 1).op("zeros_like")
    begin = begin.equal(begin)
    is_first = concatenate(call, [begin, differs], 0)
    first = is_first.op("argwhere").cast("int64").flat()
    return _Runs(order, ordered, is_first, first)


def _unique(call: Arguments) -> Value:
    """Return the distinct elements in order, with one NaN for all, and what else is asked for."""
    data = formula(call, "ar")
    with_order = flag(call, "return_index") or flag(call, "return_inverse")
    runs = _runs(call, data, one_nan=flag(call, "equal_nan", default=True), with_order=with_order)
    columns = [runs.values()]
    if flag(call, "return_index"):
        columns.append(runs.indices())
    if flag(call, "return_inverse"):
        columns.append(runs.inverse().reshape(data.shape, data))
    if flag(call, "return_counts"):
        columns.append(runs.counts(call))
    return columns[0].value if len(columns) == 1 else TupleOf(tuple(column.value for column in columns))


def _of_standard(name: str, summary: str, *others: str) -> Builtin:
    """Declare a function of the array API standard, for which each NaN is distinct."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "ar")
        runs = _runs(call, data, one_nan=False, with_order=bool({"indices", "inverse"} & {*others}))
        computed: dict[str, Callable[[], Formula]] = {
            "indices": runs.indices,
            "inverse": lambda: runs.inverse().reshape(data.shape, data),
            "counts": lambda: runs.counts(call),
        }
        results = [runs.values(), *(computed[other]() for other in others)]
        return results[0].value if len(results) == 1 else TupleOf(tuple(result.value for result in results))

    return free_function(name, "ar", apply_to, summary, _NAMES)


def _isin(call: Arguments) -> Value:
    """Return which elements are among others."""
    data, others = pair(call, "element", "test_elements")
    if data.dtype == "bool":
        data, others = data.cast("int8"), others.cast("int8")
    others = others.flat()
    if others.shape[0] == 0:
        member_mask = data.op("zeros_like").cast("bool")
    elif data.is_complex:
        member_mask = data.expand(data.rank).equal(others).reduce("any", (data.rank,))
    else:
        member_mask = data.op("numpy.isin", others)
    return (~member_mask if flag(call, "invert") else member_mask).value


def _set_function(name: str, summary: str, *, keeps: bool | None) -> Builtin:
    """Declare the union of two sets, or what the second one has (``keeps``), or lacks, of the first."""

    def apply_to(call: Arguments) -> Value:
        lhs, rhs = (side.flat() for side in pair(call, "ar1", "ar2"))
        if keeps is None:
            lhs = concatenate(call, [lhs, rhs], 0)
        values = _runs(call, lhs, one_nan=True, with_order=False).values().value
        if keeps is None:
            return values
        distinct = Operand(values, call.span)
        others = Operand(rhs.value, call.span)
        membership = Arguments("isin", {"element": distinct, "test_elements": others}, call.span)
        mask = Formula(_isin(membership), call.span)  # type: ignore[arg-type]  # one tensor
        return subscript(distinct, [Operand((mask if keeps else ~mask).value, call.span)], call.span)

    return free_function(name, "ar1 ar2 assume_unique?", apply_to, summary)


def _along_axis(call: Arguments) -> Value:
    if "axis" not in call or call.static("axis") is None:
        return _unique(call)
    data = formula(call, "ar")
    axis = one_axis(call, "axis", data.rank)
    wanted = [name for name in _RESULTS if flag(call, f"return_{name}")]
    results = ", ".join(["found", *wanted])
    text = (
        f"def unique(a):\n    rows = moveaxis(a, {axis}, 0)\n    flat = rows.reshape(len(rows), -1)\n"
        "    order = lexsort(tuple([flat[:, k] for k in range(flat.shape[1])][::-1]))\n"
        "    ordered = flat[order]\n"
        "    differs = any(ordered[1:] != ordered[:-1], axis=1)\n"
        "    is_first = concatenate((ones(1, dtype=bool), differs))[:len(rows)]\n"
        f"    index = order[is_first]\n    found = moveaxis(rows[index], 0, {axis})\n"
        "    place = cumsum(is_first) - 1\n    inverse = zeros(len(rows), dtype=int)\n"
        "    inverse[order] = place\n    counts = bincount(place)\n"
        f"    return {results}\n"
    )
    return LoopCall("text", (Operand(data.value, call.given["ar"].span),), text=text)


#: What `unique` gives beside the elements, in this order.
_RESULTS = ("index", "inverse", "counts")

SETS = (
    numpy_function(
        "unique",
        "ar return_index? return_inverse? return_counts? axis? * equal_nan? sorted?",
        _along_axis,
        "Return the distinct elements in ascending order, `?` of them; one NaN.",
        _NAMES,
    ),
    _of_standard("unique_values", "Return the distinct elements in ascending order; each NaN is one."),
    _of_standard("unique_counts", "Return (distinct elements, how often they occur).", "counts"),
    _of_standard("unique_inverse", "Return (distinct elements, which of them each element is).", "inverse"),
    _of_standard(
        "unique_all",
        "Return (distinct elements, where each occurs first, which of them each element is, counts).",
        *("indices", "inverse", "counts"),
    ),
    _set_function("union1d", "Return the distinct elements of both, in ascending order.", keeps=None),
    _set_function("intersect1d", "Return the distinct elements that both have.", keeps=True),
    _set_function("setdiff1d", "Return the distinct elements that the second has not.", keeps=False),
    free_function(
        "isin",
        "element test_elements * assume_unique? invert?",
        _isin,
        "Test which elements are among others.",
        "x1=element x2=test_elements",
    ),
)
