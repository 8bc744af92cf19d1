"""Evaluate attributes of values: ``x.shape``, ``x.T``, ``x.sum``."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nnmagic.diagnostics import Span, closest
from nnmagic.relay.complex_numbers.operators import IMAG, REAL
from nnmagic.relay.ops import OPERATORS, resolve
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, TypeCall, is_complex
from nnmagic.tinynn.builtins import BUILTINS, IN_PLACE, METHODS, MODULE_METHODS
from nnmagic.tinynn.builtins.generators import GENERATOR_METHODS
from nnmagic.tinynn.builtins.itertools_functions import CHAIN, FROM_ITERABLE
from nnmagic.tinynn.builtins.list_results import inner_lists
from nnmagic.tinynn.builtins.numpy.placement import PLACEMENT
from nnmagic.tinynn.builtins.numpy.ufunc_methods import ufunc_method
from nnmagic.tinynn.builtins.torch_meaning import is_source_of_module
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.namespace.torch_modules import attribute_of_module
from nnmagic.tinynn.operators import tables
from nnmagic.tinynn.operators.dtype_questions import ATTRIBUTES as OF_DTYPES
from nnmagic.tinynn.operators.dtype_questions import attribute_of_dtype
from nnmagic.tinynn.operators.iteration import ITERATION
from nnmagic.tinynn.operators.sets import OF_SETS
from nnmagic.tinynn.operators.strings import string_method
from nnmagic.tinynn.syntax.in_place_calls import LEFT
from nnmagic.tinynn.syntax.unsupported_syntax import NO_STRINGS, RAGGED
from nnmagic.tinynn.types.annotations import DType, dtype_named
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.numbers import is_number
from nnmagic.tinynn.values.operator_calls import apply, is_tensor, tensor_type
from nnmagic.tinynn.values.reshaping import reshape_to
from nnmagic.tinynn.values.symbolic_sizes import product_of, shape_of


def _transpose_matrices(value: v.Computed, span: Span) -> v.Value:
    rank = len(value.shape)
    if rank < 2:
        raise v.RefusalError("`.mT` is of tensors of rank 2 or more", span, hint="write .T")
    return apply("transpose", span, value, axes=(*range(rank - 2), rank - 1, rank - 2))


def _bytes_of(value: v.Computed) -> int:
    return ARRAY_DTYPES[value.dtype].itemsize


#: Attributes of tensors, with their summaries.
ATTRIBUTES = {
    "shape": "Sizes of the dimensions, as a tuple.",
    "ndim": "Number of dimensions.",
    "size": "Number of elements.",
    "dtype": "Element type.",
    "itemsize": "Bytes per element.",
    "nbytes": "Bytes of all elements.",
    "T": "Tensor with its dimensions in reverse order.",
    "mT": "Tensor with its last two dimensions swapped.",
    "real": "Real part of each element; of real numbers the tensor itself.",
    "imag": "Imaginary part of each element; of real numbers zeros.",
    "flat": "Elements in order, as a vector.",
    "device": "Where the elements are: always 'cpu'.",
}

_ATTRIBUTES: dict[str, Callable[[v.Computed, Span], v.Value]] = {
    "shape": shape_of,
    "ndim": lambda value, _span: v.Known(len(value.shape)),
    "size": lambda value, span: product_of(shape_of(value, span).items, span),
    "dtype": lambda value, _span: v.Known(dtype_named(value.dtype)),
    "itemsize": lambda value, _span: v.Known(_bytes_of(value)),
    "nbytes": lambda value, span: product_of([*shape_of(value, span).items, v.Known(_bytes_of(value))], span),
    "T": lambda value, span: apply("transpose", span, value) if len(value.shape) > 1 else value,
    "mT": _transpose_matrices,
    "real": lambda value, span: apply(REAL, span, value) if is_complex(value.dtype) else value,
    "imag": lambda value, span: apply(IMAG if is_complex(value.dtype) else "zeros_like", span, value),
    "flat": lambda value, span: BUILTINS["ravel"].call([v.Operand(value, span)], span),
    "device": lambda _value, _span: v.Known("cpu"),
}

#: Attributes of NumPy's or PyTorch's tensors that have another name in a cell.
_OTHER_NAMES = {"type": "astype(f32)"}

#: Methods that a cell does not need, since they only concern devices, gradients or Python values.
_NOT_NEEDED = frozenset(("cuda", "numpy", "requires_grad_", "block_until_ready", "eval"))
_NO_GRADIENTS = "a tensor keeps no gradient: write grad(f)(x), of a function"
#: Attributes that a cell lacks, with their hints.
_NOT_HERE = {
    **dict.fromkeys(("backward", "grad", "requires_grad"), _NO_GRADIENTS),
    "at": "tensors do not change: write y = where(condition, value, x)",
    "append": "write append(x, y, axis=0)",
    "apply": "call the function with the tensor",
    "map": "call the function with the tensor",
}


def _constructor(data: v.DataTypeName, name: str, span: Span) -> v.Value:
    for constructor in data.type.constructors:
        if constructor.name == name:
            return v.ConstructorName(constructor, data.fields[name])
    close = closest(name, data.fields)
    hint = f"did you mean {close}?" if close else f"its constructors: {', '.join(data.fields)}"
    raise v.RefusalError(f"the class `{data.type.header.name}` has no constructor `{name}`", span, hint=hint)


def _field(value: v.TupleOf, name: str, span: Span) -> v.Value:
    """Return a field of a record. Raises RefusalError."""
    assert value.record is not None
    names = value.record.names
    if name in names:
        return value.items[names.index(name)]
    close = closest(name, names)
    hint = f"did you mean {close}?" if close else f"its fields: {', '.join(names)}"
    raise v.RefusalError(f"the record `{value.record.name}` has no field `{name}`", span, hint=hint)


def _item(call: Arguments) -> v.Value:
    """Return the only element as a tensor of rank 0."""
    shape = call.type("a").shape
    if any(dim != 1 for dim in shape):
        hint = "index it, as in x[0], or reduce it, as in x.sum()"
        raise v.RefusalError(f"item() of {describe(call.given['a'].value)}", call.span, hint=hint)
    return reshape_to(call.tensor("a"), (), call.span) if shape else call.tensor("a")


_ITEM = Builtin("item", "a", _item, "Return the only element of a tensor of size 1, as rank 0.")


def _view(
    name: str, items: Callable[[v.DictOf], Iterable[v.Value]], of_table: Callable[[v.TableOf, Span], v.Value]
) -> Builtin:
    """Declare a method of dictionaries that gives their contents in order."""

    def apply_to(call: Arguments) -> v.Value:
        owner = call.given["a"].value
        if isinstance(owner, v.TableOf):
            return of_table(owner, call.span)
        entries = v.entries_of(owner)
        assert entries is not None
        return v.TupleOf(tuple(items(v.DictOf(entries))))

    return Builtin(name, "a", apply_to, f"Return the {name} of a dictionary, as a tuple.")


def _get(call: Arguments) -> v.Value:
    owner, key = call.given["a"].value, call.given["key"]
    default = call.given["default"].value if "default" in call.given else v.Known(None)
    known, table = tables.key_or_missing(key), tables.as_table(owner, call.span)
    if table is not None and (known is tables.MISSING or isinstance(owner, v.TableOf)):
        return tables.value_or(table, key, default, call.span)
    entries = v.entries_of(owner)
    if not entries:
        return default
    return entries.get(call.static("key"), default)


def _copy(call: Arguments) -> v.Value:
    owner = call.given["a"].value
    if isinstance(owner, v.DictOf):
        return v.dictionary_of(owner.items)
    return tables.copy(owner, call.span)


_MOST_COMMON = """
def most_common(counts, n):
    items = sorted(counts.items(), key=lambda item: -item[1])
    return items if n is None else items[:n]
"""
_MOST_COMMON_OF_TABLE = """
def most_common(counts, n):
    items = asarray(list(counts.keys()))
    numbers = asarray(list(counts.values()))
    order = argsort(-numbers, kind="stable")
    return [(items[i], numbers[i]) for i in (order if n is None else order[:n])]
"""


def _most_common(call: Arguments) -> v.Value:
    n = call.given.get("n", v.Operand(v.Known(None), call.span))
    text = _MOST_COMMON_OF_TABLE if isinstance(call.given["a"].value, v.TableOf) else _MOST_COMMON
    return v.LoopCall("text", (call.given["a"], n), text=text)


def _pairs(table: v.TableOf, span: Span) -> v.Value:
    both = (tables.keys_of(table, span), tables.all_values(table, span))
    return v.Zipped("zip", tuple(v.Operand(each, span) for each in both))


_VIEWS = {
    "keys": _view("keys", lambda owner: map(v.known_value, owner.items), tables.keys_of),
    "values": _view("values", lambda owner: owner.items.values(), tables.all_values),
    "items": _view(
        "items",
        lambda owner: (
            v.TupleOf((v.known_value(key), item), written="tuple") for key, item in owner.items.items()
        ),
        _pairs,
    ),
    "get": Builtin("get", "a key default?", _get, "Return the value of a key, or another one."),
    "copy": Builtin("copy", "a", _copy, "Return a copy of a dictionary."),
    "most_common": Builtin(
        "most_common", "a n?", _most_common, "Return the most frequent items with their counts."
    ),
}

_COUNT = """
def count(items, value):
    found = 0
    for each in items:
        if each == value:
            found += 1
    return found
"""
_INDEX = """
def index(items, value):
    for place, each in enumerate(items):
        if each == value:
            return place
    raise ValueError("the value is not in the list")
"""


def _has_axes(item: v.Value) -> bool:
    return isinstance(item, v.Computed) and isinstance(item.type, TensorType) and bool(item.type.shape)


def _in_order(call: Arguments) -> v.Value:
    return BUILTINS["sorted"].call([call.given["a"]], call.span)


def _in_the_language(text: str) -> Callable[[Arguments], v.Value]:
    return lambda call: v.LoopCall("text", (call.given["a"], call.given["value"]), text=text)


#: Methods of lists that change nothing.
_OF_LISTS = {
    "copy": ITERATION["list"],
    "count": Builtin("count", "a value", _in_the_language(_COUNT), "Return how many items equal a value."),
    "index": Builtin("index", "a value", _in_the_language(_INDEX), "Return the first place of a value."),
    "lists!": Builtin("lists!", "a counts keys?", inner_lists, "Return lists of several lengths."),
    "sort!": Builtin("sort!", "a", _in_order, "Return the items in ascending order."),
}

#: Methods of dictionaries and lists that change nothing.
CONTAINER_METHODS = {**_VIEWS, **OF_SETS, **_OF_LISTS}


def _no_tensor_hint(owner: v.Operand, name: str) -> str | None:
    """Return a hint for an attribute of a value that is not a tensor."""
    text = source_text(owner.span)
    match owner.value:
        case v.Computed(type=TypeCall()):
            return f"`match {text}:` takes it apart, as in case Cons(head, tail): ..."
        case v.Known(value=bool() | int() | float()) | v.Dimension() if name in METHODS:
            shown = text if isinstance(owner.value, v.Dimension) else "it"
            if name == "astype":
                return f"leave it out: a Python number takes the dtype of the tensor beside {shown}"
            return f"it is a Python number: write {name}({text})"
        case v.Known(value=str()):
            return NO_STRINGS
        case v.DictOf(items=items):
            key = name if name in items else "name"
            return f"index it with a key, as in {text}[{key!r}]"
        case v.TupleOf() | v.ListOfRows() if name in ("pop", "popleft"):
            return f"take the item in a statement of its own, as in item = {text}.{name}()"
        case v.TupleOf() if name in ("append", "extend", "insert"):
            return f"a list does not change: write {text} + [value]"
        case v.TupleOf() if name == "sort":
            return f"write {text} = sort(stack({text}), axis=0)"
        case v.TupleOf(items=items) if name in METHODS:
            if any(map(is_tensor, items)):
                return f"it is a tuple of tensors: write stack({text}).{name}(...)"
            return f"it is a tuple: write {name}({text})"
    return None


#: Methods that change a list, which a list of lists has where the cell makes it so that its lists may grow.
_CHANGES = ("clear", "extend", "insert", "reverse", "sort")


def _number_part(_owner: v.Operand, name: str, number: object) -> v.Value:
    return v.Known(getattr(number, name))


#: Attributes of Python's numbers.
_OF_NUMBERS: dict[str, Callable[[v.Operand, str, object], v.Value]] = {
    "real": _number_part,
    "imag": _number_part,
    "conjugate": lambda owner, name, _number: v.Method(owner, name, v.BuiltinName(BUILTINS[name])),
}


def _method_of_generator(owner: v.Operand, name: str, span: Span) -> v.Value:
    if name in GENERATOR_METHODS:
        return v.Method(owner, name, v.BuiltinName(GENERATOR_METHODS[name]))
    close = closest(name, GENERATOR_METHODS)
    hint = f"did you mean .{close}?" if close else f"its methods: {', '.join(sorted(GENERATOR_METHODS))}"
    raise v.RefusalError(f"a generator of random numbers has no method `{name}` in a cell", span, hint=hint)


def _method_of_builtin(function: v.BuiltinName, name: str) -> Builtin | None:
    """Return what ``np.add.reduce`` and its like name; None for names that a function has not."""
    if function.builtin is CHAIN and name == FROM_ITERABLE.name:
        return FROM_ITERABLE
    builtin = BUILTINS.get(function.builtin.name)
    return None if builtin is None else ufunc_method(builtin, name, BUILTINS)


def attribute(owner: v.Operand, name: str, span: Span) -> v.Value:
    """Evaluate ``owner.name``."""
    value = owner.value
    if isinstance(value, v.DataTypeName):
        return _constructor(value, name, span)
    if isinstance(value, v.ModuleOf):
        return attribute_of_module(value, name, span)
    if isinstance(value, v.GeneratorOf):
        return _method_of_generator(owner, name, span)
    if (tables.is_dictionary(value) or isinstance(value, v.DictOf)) and name in _VIEWS:
        return v.Method(owner, name, v.BuiltinName(_VIEWS[name]))
    if v.is_set(value) and name in OF_SETS:
        return v.Method(owner, name, v.BuiltinName(OF_SETS[name]))
    if isinstance(value, v.TupleOf) and value.record is not None and v.entries_of(value) is None:
        return _field(value, name, span)
    if isinstance(value, v.TupleOf) and name in value.names:
        return value.items[value.names.index(name)]
    if name == "sort!" and isinstance(value, v.TupleOf) and any(map(_has_axes, value.items)):
        raise v.RefusalError(
            f"{describe(value)} has no attribute `sort`", span, hint=_no_tensor_hint(owner, "sort")
        )
    if isinstance(value, v.TupleOf | v.ListOfRows) and name in _OF_LISTS:
        return v.Method(owner, name, v.BuiltinName(_OF_LISTS[name]))
    if isinstance(value, v.BuiltinName) and (method := _method_of_builtin(value, name)) is not None:
        return v.BuiltinName(method)
    if isinstance(value, v.Known) and isinstance(value.value, DType) and name in OF_DTYPES:
        return attribute_of_dtype(value.value, name)
    if isinstance(value, v.Known) and isinstance(value.value, str):
        of_string = string_method(value.value, name)
        if of_string is not None:
            return of_string
    if isinstance(value, v.Known) and is_number(value.value) and name in _OF_NUMBERS:
        return _OF_NUMBERS[name](owner, name, value.value)
    if isinstance(value, v.Known) and isinstance(value.value, float) and name == "astype":  # np.sqrt(3)
        return v.Method(owner, name, v.BuiltinName(METHODS[name]))
    if name.endswith(LEFT):
        name = name.removesuffix(LEFT)
        if is_tensor(value):
            return v.Method(owner, name, v.BuiltinName((PLACEMENT | BUILTINS)[name]))
    if not is_tensor(value):
        raise _no_attribute(owner, name, span)
    assert isinstance(value, v.Computed)
    if name in _ATTRIBUTES:
        return _ATTRIBUTES[name](value, span)
    if name == "item":
        return v.Method(owner, name, v.BuiltinName(_ITEM))
    if name in IN_PLACE and not (name in MODULE_METHODS and is_source_of_module()):
        message = f"`{name}` would change the tensor, and tensors do not change"
        raise v.RefusalError(message, span, hint=IN_PLACE[name])
    if name in MODULE_METHODS and is_source_of_module():
        return v.Method(owner, name, v.BuiltinName(MODULE_METHODS[name]))
    if name in METHODS:
        return v.Method(owner, name, v.BuiltinName(METHODS[name]))
    operator = resolve(name)
    if operator is not None and operator.args and not operator.variadic:
        return v.Method(owner, name, v.OperatorName(operator))
    raise _unknown_attribute(owner, value, name, span)


def _no_attribute(owner: v.Operand, name: str, span: Span) -> v.RefusalError:
    """Return the error for an attribute of what is no tensor."""
    if name == "setdefault" and tables.is_dictionary(owner.value):
        message = "a key that is missing is added where a statement always computes that, before all else"
        hint = "write d.setdefault(key, value) on a line before, or d.get(key, 0), which adds none"
        return v.RefusalError(message, span, hint=hint)
    text = source_text(owner.span)
    is_list = isinstance(owner.value, v.TupleOf | v.ListOfRows)
    if is_list and name in _CHANGES and text[-1:] == "]" != text[:1]:
        message = f"`.{name}` would change `{text}` in place, which a cell cannot"
        return v.RefusalError(message, span, hint=RAGGED)
    message = f"{describe(owner.value)} has no attribute `{name}`"
    return v.RefusalError(message, span, hint=_no_tensor_hint(owner, name))


def _unknown_attribute(owner: v.Operand, value: v.Computed, name: str, span: Span) -> v.RefusalError:
    """Return the error for an attribute that tensors do not have."""
    type_ = tensor_type(owner)
    hint = None
    if name in _NOT_NEEDED:
        hint = f"leave .{name}() out"
    elif name in _NOT_HERE:
        hint = _NOT_HERE[name]
    elif name in _OTHER_NAMES:
        hint = f"write {_OTHER_NAMES[name]}"
    elif (close := closest(name, [*_ATTRIBUTES, *METHODS, *OPERATORS])) and abs(len(close) - len(name)) < 2:
        hint = f"did you mean .{close}?"  # `foo` is no `floor`
    return v.RefusalError(
        f"{describe(v.Computed(value.expr, type_))} has no attribute `{name}`", span, hint=hint
    )
