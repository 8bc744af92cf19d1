"""Turn lists of numbers, or of equal tensors, into tensors of rows, whose items are read at run time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.limits import MAX_TUPLE_SIZE
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, is_complex, is_float, is_integer
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.numbers import natural_dtype, number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast, is_tensor, tensor_type, vector_of


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
    inner = [item.items for item in items.items if isinstance(item, v.TupleOf) and item.record is None]
    if items.record is not None or not items.items:
        return None
    if all(isinstance(item, v.TupleOf) and item.written == "tuple" for item in items.items):
        return _tuples_as_rows(items.items, span)
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
    return v.ListOfRows(rows, is_table=bool(inner))


def computed_items_as_rows(operand: v.Operand) -> v.Operand | None:
    """Return lists of alike numbers, none of which is known, as rows, also where they are zipped.

    None where an item can be taken at a static index only.
    """
    value = operand.value
    if isinstance(value, v.Zipped):
        parts = [computed_items_as_rows(item) for item in value.parts]
        known = tuple(item for item in parts if item is not None)
        return replace(operand, value=replace(value, parts=known)) if len(known) == len(parts) else None
    if not isinstance(value, v.TupleOf):
        return operand
    numbers = list(v.parts_of(value))
    types = {item.type for item in numbers if isinstance(item, v.Computed)}
    if (
        value.written == "tuple"
        or len(types) != 1
        or not all(isinstance(item, v.Computed) and item.type.shape == () for item in numbers)  # type: ignore[union-attr]  # of a tensor
    ):
        return None
    rows = as_list_of_rows(value, operand.span)
    return None if rows is None else replace(operand, value=rows)


def known_tuples_as_rows(operand: v.Operand, *, may_be_negative: bool) -> v.Operand | None:
    """Return a tuple of tuples of the same types of numbers as rows; None of anything else.

    None of truth values, which a number may replace, and of ints that a float64 cannot hold beside floats.
    """
    value = operand.value
    if not isinstance(value, v.TupleOf) or value.record is not None:
        return None
    columns = set(map(columns_of, value.items))
    dtypes = {column.dtype for each in columns for column in leaves(each)}
    if len(columns) != 1 or "bool" in dtypes:
        return None
    most = 2**53 if len(dtypes) > 1 else 2**63 - 1
    for number in v.parts_of(value):
        integer = number.value if isinstance(number, v.Known) else None
        if isinstance(integer, int) and not (-most if may_be_negative else 0) <= integer <= most:
            return None
    rows = _tuples_as_rows(value.items, operand.span)
    return None if rows is None else replace(operand, value=rows)


def _tuples_as_rows(items: Sequence[v.Value], span: Span) -> v.ListOfRows | None:
    """Return a list of tuples of numbers as one of rows; None for other lists."""
    columns = meet_all(map(columns_of, items))
    if not columns:
        return None
    rows = v.TupleOf(tuple(row_of(v.Operand(item, span), columns) for item in items))
    array = v.dynamic(BUILTINS["array"].call([v.Operand(rows, span)], span))
    return v.ListOfRows(replace(array, default_dtype=None), columns=columns)


# -- tuples of numbers -----------------------------------------------------------------------------------


def columns_of(value: v.Value) -> v.Columns:
    """Return the columns of a list that holds a tuple of numbers; none for any other item."""
    column = _column_of(value)
    return column if isinstance(column, tuple) else ()


def _column_of(value: v.Value) -> v.Column | v.Columns | None:
    match value:
        case v.TupleOf(items=items, record=None, written="tuple") if items:
            columns = tuple(map(_column_of, items))
            return None if None in columns else columns  # type: ignore[return-value]  # none is None
        case v.Known(value=bool() | int() | float() | complex() as number):
            return v.Column(natural_dtype(number), weak=True)
        case v.Dimension():
            return v.Column("int64", weak=True)
        case v.Computed(type=TensorType(shape=(), dtype=dtype), weak=weak):
            return v.Column(dtype, weak)
    return None


def leaves(columns: v.Columns) -> Iterator[v.Column]:
    """Yield the columns of tuples, and of those in them, in order."""
    for column in columns:
        yield from leaves(column) if isinstance(column, tuple) else (column,)


def meet_columns(one: v.Columns | None, other: v.Columns) -> v.Columns | None:
    """Return the columns of a list that takes tuples of two kinds; None where there is none."""
    if one is None or len(one) != len(other):
        return None
    met = tuple(map(_meet, one, other))
    return None if None in met else met  # type: ignore[return-value]  # none is None


def meet_all(of_lists: Iterable[v.Columns]) -> v.Columns | None:
    """Return the columns of a list that takes the tuples of several; None where there is none."""
    met: v.Columns | None = None
    for count, columns in enumerate(of_lists):
        met = meet_columns(met, columns) if count else columns
    return met


def _meet(one: v.Column | v.Columns, other: v.Column | v.Columns) -> v.Column | v.Columns | None:
    if isinstance(one, tuple) or isinstance(other, tuple):
        return meet_columns(one, other) if isinstance(one, tuple) and isinstance(other, tuple) else None
    if one.dtype == other.dtype:
        return v.Column(one.dtype, one.weak and other.weak)
    if not one.weak and not other.weak:
        return None
    weak, wide = sorted((one, other), key=lambda column: (not column.weak, _kind(column.dtype)))
    return wide if (weak.dtype != "bool" and _kind(weak.dtype) <= _kind(wide.dtype)) else None


def rows_dtype(columns: v.Columns) -> str:
    """Return the dtype of rows that hold the numbers of tuples as they are."""
    dtypes = {column.dtype for column in leaves(columns)}
    if len(dtypes) == 1:
        return dtypes.pop()
    return str(np.result_type(*(ARRAY_DTYPES[dtype] for dtype in dtypes)))


def row_of(item: v.Operand, columns: v.Columns) -> v.Computed:
    """Return a tuple as a row of a list. Raises RefusalError where the columns do not hold its numbers."""
    own = columns_of(item.value)
    if not own or meet_columns(columns, own) != columns:
        raise _other_columns(columns, own, item.span)
    dtype = rows_dtype(columns)
    numbers = [
        _number(number, column.dtype, dtype, item.span)
        for number, column in zip(v.parts_of(item.value), leaves(columns), strict=True)
    ]
    return vector_of(numbers, item.span)


def _number(value: v.Value, dtype: str, rows: str, span: Span) -> v.Computed:
    """Return a number in the dtype of rows, which hold it as it is."""
    if isinstance(value, v.Dimension):
        value = value.number
    if isinstance(value, v.Known):
        number = number_constant(value.value, dtype, span)  # type: ignore[arg-type]  # a number
    else:
        assert isinstance(value, v.Computed)
        number = cast(held(v.Computed(value.expr, value.type), dtype, span), dtype, span)
    return cast(held(number, rows, span), rows, span)


#: The ints that a float64 holds have at most as many bits.
_FLOAT_BITS = 53


def held(
    numbers: v.Computed, dtype: str, span: Span, what: str = "a list of tuples with floats"
) -> v.Computed:
    """Return integers that are to be floats; the program raises ValueError where these would be others."""
    if numbers.dtype not in ("int64", "uint64") or not is_float(dtype):
        return numbers
    most = number_constant(1 << _FLOAT_BITS, numbers.dtype, span)
    fine = apply("less_equal", span, numbers, most)
    if numbers.dtype == "int64":
        least = apply("greater_equal", span, numbers, number_constant(-(1 << _FLOAT_BITS), "int64", span))
        fine = apply("logical_and", span, fine, least)
    if numbers.shape:
        fine = apply("all", span, fine)
    message = f"{what} holds ints of at most {_FLOAT_BITS} bits"
    return apply("python.require", span, numbers, fine, message=message)


def with_columns(items: v.ListOfRows, columns: v.Columns, span: Span) -> v.ListOfRows:
    """Return a list of tuples as one with wider columns. Raises RefusalError where they are others."""
    if meet_columns(columns, items.columns) != columns:
        raise _other_columns(columns, items.columns, span)
    dtype = rows_dtype(columns)
    rows = cast(held(items.rows, dtype, span), dtype, span)
    return v.ListOfRows(replace(rows, weak=items.rows.weak), columns=columns)


def _other_columns(columns: v.Columns, own: v.Columns, span: Span) -> v.RefusalError:
    what = f"tuples of {_format_columns(own)}" if own else "no tuples of as many numbers"
    message = f"the items of a list are tuples of {_format_columns(columns)} before this, and {what} here"
    return v.RefusalError(message, span, hint="begin with a tuple that holds all, as in [(0.0, 0)]")


def _format_columns(columns: v.Columns) -> str:
    """Write columns as the tuples are read."""
    shown = (
        _format_columns(column) if isinstance(column, tuple) else dtype_short_name(column.dtype)
        for column in columns
    )
    return f"({', '.join(shown)})"


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
        length = len(items.value.items) if isinstance(items.value, v.TupleOf) else MAX_TUPLE_SIZE + 1
        is_rows = count.value * length > MAX_TUPLE_SIZE
    else:
        is_rows = is_run_time([times]) and not (is_tensor(count) and not is_integer(tensor_type(times).dtype))
    rows = items.value if isinstance(items.value, v.ListOfRows) and is_rows else None
    if isinstance(items.value, v.TupleOf) and is_rows:
        rows = as_list_of_rows(items.value, span)
    if rows is None or rows.is_table or len(tensor_type(v.Operand(rows.rows, span)).shape) > 1:
        return None
    at_least = BUILTINS["max"].call([times, v.Operand(v.Known(0), span)], span)
    tiled = v.dynamic(BUILTINS["tile"].call([v.Operand(rows.rows, span), v.Operand(at_least, span)], span))
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
    if isinstance(value, v.Known) and isinstance(value.value, bool | int | float | complex):
        dtype, is_weak = natural_dtype(value.value), True
    elif isinstance(value, v.Computed) and isinstance(value.type, TensorType):
        dtype, is_weak = value.type.dtype, value.weak
    else:
        return
    held = rows.dtype
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
