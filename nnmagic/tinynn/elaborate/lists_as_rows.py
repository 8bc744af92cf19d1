"""Make lists of rows of lists: of numbers, or of equal tensors, whose items are read at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.limits import MAX_TUPLE_SIZE
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, is_complex, is_float, is_integer
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.numbers import natural_dtype
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type


def is_run_time(index: Sequence[v.Operand]) -> bool:
    """Return whether an index is a number that only the call knows."""
    if len(index) != 1:
        return False
    value = index[0].value
    is_number = isinstance(value, v.Computed) and isinstance(value.type, TensorType) and not value.type.shape
    return is_number or isinstance(value, v.Dimension)


def as_list_of_rows(items: v.TupleOf, span: Span) -> v.ListOfRows | None:
    """Return a list of numbers, of equal tensors, or of lists of these as one of rows; None for other lists.

    Lists that are one object stay as they are: Python would change them all.
    """
    inner_tuples = [item for item in items.items if isinstance(item, v.TupleOf) and item.record is None]
    inner = [item.items for item in inner_tuples]
    if items.record is not None or not items.items:
        return None
    if inner:
        lists = {id(item) for item in items.items}
        sizes = {len(item) for item in inner}
        if len(inner) != len(items.items) or len(lists) != len(inner) or len(sizes) != 1 or 0 in sizes:
            return None
    elements = [item for row in inner for item in row] if inner else list(items.items)
    if not _are_alike(elements):
        return None
    array = BUILTINS["array"].call([v.Operand(items, span)], span)
    if not isinstance(array, v.Computed):
        return None
    weak = all(isinstance(item, v.Known) or (isinstance(item, v.Computed) and item.weak) for item in elements)
    rows = replace(array, weak=weak, default_dtype=None)
    of_tuples = bool(inner) and all(item.written == "tuple" for item in inner_tuples)
    return v.ListOfRows(rows, is_table=bool(inner) and not of_tuples, of_tuples=of_tuples)


def _are_alike(elements: Sequence[v.Value]) -> bool:
    """Return whether values are Python's bools, or its other numbers, or tensors of one type.

    Numbers of NumPy that have all bits of Python's may stand beside these.
    """
    known = {type(element.value) for element in elements if isinstance(element, v.Known)}
    computed = [element for element in elements if isinstance(element, v.Computed)]
    if len(computed) + sum(isinstance(element, v.Known) for element in elements) != len(elements):
        return False
    strong = [element.type for element in computed if not element.weak]
    if any(element != strong[0] for element in strong):
        return False
    if strong and (known or len(strong) < len(elements)):
        known |= {_PYTHON_TYPES.get(strong[0].dtype, object) if strong[0].shape == () else object}  # type: ignore[union-attr]  # of a tensor
    elif strong:
        return True
    kinds = known | {_PYTHON_TYPES.get(getattr(element.type, "dtype", ""), object) for element in computed}
    return kinds == {bool} or kinds <= {int, float, complex}


def repeated_list(lhs: v.Operand, rhs: v.Operand, span: Span) -> v.ListOfRows | None:
    """Return ``[0] * n`` of numbers, where ``n`` is large or known at run time only; None otherwise."""
    items, times = (lhs, rhs) if isinstance(lhs.value, v.TupleOf | v.ListOfRows) else (rhs, lhs)
    if isinstance(items.value, v.TupleOf) and items.value.written != "list":
        return None
    count = times.value
    if isinstance(count, v.Known) and isinstance(count.value, int):
        parts = len(items.value.items) if isinstance(items.value, v.TupleOf) else MAX_TUPLE_SIZE + 1
        is_rows = count.value * parts > MAX_TUPLE_SIZE
    else:
        is_rows = is_run_time([times]) and not (is_tensor(count) and not is_integer(tensor_type(times).dtype))
    rows = items.value if isinstance(items.value, v.ListOfRows) and is_rows else None
    if isinstance(items.value, v.TupleOf) and is_rows:
        rows = as_list_of_rows(items.value, span)
    if rows is None or rows.is_table or len(tensor_type(v.Operand(rows.rows, span)).shape) > 1:
        return None
    at_least = BUILTINS["max"].call([times, v.Operand(v.Known(0), span)], span)
    tiled = BUILTINS["tile"].call([v.Operand(rows.rows, span), v.Operand(at_least, span)], span)
    assert isinstance(tiled, v.Computed)
    return v.ListOfRows(replace(tiled, weak=rows.rows.weak, default_dtype=None))


#: The types of Python's numbers that are known at run time only, by the dtypes that they have then.
_PYTHON_TYPES: dict[str, type] = {"bool": bool, "int64": int, "float64": float, "complex128": complex}


def check_item(name: str, rows: v.Computed, item: v.Operand) -> None:
    """Check that the rows of a list hold a number as it is: Python's lists convert none.

    Raises RefusalError.
    """
    value = item.value
    if isinstance(value, v.Dimension):
        value = value.number
    assert isinstance(rows.type, TensorType)
    if isinstance(value, v.Known) and isinstance(value.value, bool | int | float | complex):
        dtype, is_weak = natural_dtype(value.value), True
    elif isinstance(value, v.Computed) and isinstance(value.type, TensorType):
        dtype, is_weak = value.type.dtype, value.weak
    else:
        return
    held = rows.type.dtype
    fits = _kind(dtype) <= _kind(held) if is_weak else np.can_cast(ARRAY_DTYPES[dtype], ARRAY_DTYPES[held])
    if not fits:
        message = (
            f"{name} is a list of {dtype_short_name(held)}, which does not hold {dtype_short_name(dtype)}"
        )
        hint = f"begin with items of {dtype_short_name(dtype)}"
        if is_weak:
            hint += f", as in [{_ZEROS[_kind(dtype)]}] * n"
        raise v.RefusalError(message, item.span, hint=hint)


#: A number of each of Python's kinds.
_ZEROS = ("False", "0", "0.0", "0j")


def _kind(dtype: str) -> int:
    """Return the place of a dtype's kind among bools, integers, floats and complex numbers."""
    return (dtype != "bool") + (is_float(dtype) or is_complex(dtype)) + is_complex(dtype)
