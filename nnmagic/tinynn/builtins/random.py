"""Define random numbers: ``random.normal(key, shape)`` and the like, each a function of its key alone.

A key is Relay's: ten words of Threefry (Salmon et al. 2011). A function never changes its key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.dims import product
from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.relay.types import AnyDim, Dim, TensorType, is_float, is_integer
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import broadcast, concatenate, constant_of
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.values import symbolic_sizes as symbolic
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import call_operator
from nnmagic.tinynn.values.operator_restrictions import broadcast_shape
from nnmagic.tinynn.values.values import Computed, Known, Operand, RefusalError, TupleOf, Value

_WORDS = 1 << 64
_KEY = TensorType((10,), "uint64")
#: What follows the four words of a fresh key: an empty path, a counter of 0, and where the path begins.
_FRESH = np.array([0, 0, 0, 0, 1 << 63, 0], "uint64")
#: The counter of ``fold_in``, which no drawing of numbers reaches.
_FOLDED = 1 << 62


# -- keys ----------------------------------------------------------------------------------------------


def _key_of(call: Arguments) -> Formula:
    operand = call.given["key"]
    if isinstance(operand.value, Computed) and operand.value.type == _KEY:
        return Formula(operand.value, call.span)
    hint = "make one with key = random.key(seed), and several with random.split(key, 3)"
    raise call.mismatch("key", "a key of random numbers", hint)


def _key(call: Arguments) -> Value:
    operand = symbolic.as_number(call.given["seed"])
    seed = args.python_number(operand.value)
    if isinstance(seed, int):
        words = np.array([seed % _WORDS, 0, 0, 0, *_FRESH.tolist()], "uint64")
        return constant_of(words, "uint64", call.span).value
    data = _integer(call, operand, "seed")
    rest = constant_of(np.array([0, 0, 0, *_FRESH.tolist()], "uint64"), "uint64", call.span)
    return concatenate(call, [data.cast("uint64").reshape((1,)), rest], 0).value


def _integer(call: Arguments, operand: Operand, parameter: str) -> Formula:
    """Return an argument that must be an integer of rank 0."""
    value = operand.value
    number = args.python_number(value)
    if isinstance(number, int):
        bits = constant_of(np.array(number % _WORDS, "uint64"), "uint64", call.span)
        return bits.cast("int64")
    type_ = value.type if isinstance(value, Computed) else None
    if isinstance(type_, TensorType) and is_integer(type_.dtype) and not type_.shape:
        assert isinstance(value, Computed)
        return Formula(value, call.span)
    raise RefusalError(f"{call.name}: `{parameter}` must be an integer, not {describe(value)}", operand.span)


def _split_words(call: Arguments) -> Formula:
    """Return the key whose numbers the new keys are made of: none that the key itself draws."""
    return _results("random.threefry_split", [_key_of(call).value], call.span)[1]


def _split(call: Arguments) -> Value:
    operand = call.given.get("num", Operand(Known(2), call.span))
    num = symbolic.as_size(operand)
    count = -1 if num is None else symbolic.dim_of(num)
    if count == AnyDim() or (isinstance(count, int) and count < 1):
        raise call.mismatch("num", "a number of keys, or a named size")
    words = _bits(_split_words(call), (count, 4))
    tail = broadcast(constant_of(_FRESH[None], "uint64", call.span), (count, len(_FRESH)))
    return concatenate(call, [words, tail], 1).value


def _fold_in(call: Arguments) -> Value:
    data = _integer(call, symbolic.as_number(call.given["data"]), "data").cast("uint64").reshape((1,))
    key = _split_words(call)
    first = key.between(0, 0, 6)
    last = key.between(0, 8, 10)
    folded = constant_of(np.array([_FOLDED], "uint64"), "uint64", call.span)
    words = _bits(concatenate(call, [first, data, folded, last], 0), (4,))
    return concatenate(call, [words, constant_of(_FRESH, "uint64", call.span)], 0).value


# -- numbers -------------------------------------------------------------------------------------------


def _results(name: str, operands: Sequence[Computed], span: Span, **attrs: object) -> list[Formula]:
    """Call an operator that gives two tensors."""
    result = call_operator(OPERATORS[name], [Operand(operand, span) for operand in operands], attrs, span)
    assert isinstance(result, TupleOf)
    return [Formula(item, span) for item in result.items if isinstance(item, Computed)]


class _Measured(tuple[Dim, ...]):
    """A shape some of whose sizes are numbers of the call."""

    sizes: Sequence[Value]

    def __new__(cls, shape: Sequence[Dim], sizes: Sequence[Value]) -> _Measured:
        made = super().__new__(cls, shape)
        made.sizes = sizes
        return made


def _bits(key: Formula, shape: Sequence[Dim]) -> Formula:
    """Return random words of 64 bits."""
    if isinstance(shape, _Measured):
        zero = constant_of(np.array(0, "uint8"), "uint8", key.span)
        like = Formula(symbolic.full(zero.value, shape.sizes, key.span), key.span)
        return key.op("numpy.random.bits_like", like)
    return _results("random.threefry_generate", [key.value], key.span, out_shape=tuple(shape))[1]


def _draw(key: Formula, name: str, shape: Sequence[Dim], dtype: str) -> Formula:
    """Return numbers of the standard normal distribution, or of the uniform one over [0, 1)."""
    if isinstance(shape, _Measured):
        return _draw_of_dynamic_shape(key, name, shape, dtype)
    ends = [constant_of(np.array(end, dtype), dtype, key.span).value for end in (0, 1)]
    return _results(f"random.{name}", [key.value, *ends], key.span, out_shape=tuple(shape), out_dtype=dtype)[
        1
    ]


def _draw_of_dynamic_shape(key: Formula, name: str, shape: _Measured, dtype: str) -> Formula:
    """Return the same numbers of a shape that the call decides, made of random words here."""
    if name == "uniform":
        return _fractions(_bits(key, shape), dtype)
    words = _bits(key, _Measured((2, *shape), (Known(2), *shape.sizes)))
    first, second = (
        _fractions(words.op("take", constant_of(np.array(half), "int64", key.span), axis=0), dtype)
        for half in (0, 1)
    )
    return ((1 - first).log() * -2).sqrt() * (second * (2 * math.pi)).op("sin")


def _fractions(words: Formula, dtype: str) -> Formula:
    """Return numbers in [0, 1): random bits as the fraction of a number in [1, 2), minus 1."""
    if dtype == "float32":
        low = words.op("bitwise_and", 0xFFFFFFFF).op("right_shift", 9).op("bitwise_or", 127 << 23)
        return low.cast("uint32").op("reinterpret", dtype="float32") - 1
    return words.op("right_shift", 12).op("bitwise_or", 1023 << 52).op("reinterpret", dtype="float64") - 1


def _uniform_inside(key: Formula, shape: Sequence[Dim], dtype: str) -> Formula:
    """Return uniform numbers that are neither 0 nor 1, whose logarithms are finite."""
    return _draw(key, "uniform", shape, dtype) + 2.0 ** -(24 if dtype == "float32" else 53)


def _dtype(call: Arguments) -> str:
    """Return the float dtype of the numbers: f32 unless another is given."""
    dtype = args.dtype_argument(call) or "float32"
    if dtype not in ("float32", "float64"):
        message = f"{call.name}: `dtype` must be f32 or f64, not {dtype_short_name(dtype)}"
        hint = f"convert the numbers, as in {call.name}(...).astype({dtype_short_name(dtype)})"
        raise RefusalError(message, call.at("dtype"), hint=hint)
    return dtype


def _shape(call: Arguments, *beside: Formula) -> tuple[Dim, ...]:
    """Return the shape of the numbers: as given, or that of the tensors in the other arguments."""
    shapes = [data.shape for data in beside]
    if "shape" not in call:
        shape = broadcast_shape(shapes) if shapes else ()
        if shape is None:
            shown = " and ".join(map(format_shape, shapes))
            raise RefusalError(f"{call.name}: the shapes {shown} do not broadcast", call.span)
        return shape
    operand = call.given["shape"]
    sizes = symbolic.dynamic_sizes(operand)
    shape = args.shape_argument(call, "shape") if sizes is None else tuple(map(symbolic.dim_of, sizes))
    if any(isinstance(dim, AnyDim) and dim.label is None for dim in shape):
        if sizes is not None and not any(data.rank for data in beside):
            return _Measured(shape, sizes)
        message = f"{call.name}: the size of the result is not known before the run"
        hint = "give a number, or the size of an argument, as in x.shape or (len(x), 3)"
        raise RefusalError(message, operand.span, hint=hint)
    if shapes and broadcast_shape([shape, *shapes]) != shape:
        shown = " and ".join(map(format_shape, shapes))
        message = f"{call.name}: an argument of shape {shown} does not broadcast to {format_shape(shape)}"
        raise RefusalError(message, operand.span)
    return shape


def _parameter(call: Arguments, name: str, dtype: str) -> Formula | None:
    """Return a parameter of a distribution, which has the dtype of the numbers; None if it is not given."""
    if name not in call:
        return None
    operand = call.given[name]
    number = args.python_number(operand.value)
    if isinstance(number, int | float):
        return constant_of(np.array(number, dtype), dtype, call.span)
    data = args.as_formula_beside(call, name, dtype)
    if is_float(data.dtype) and data.dtype != dtype and not data.value.weak:
        short = dtype_short_name(data.dtype)
        message = f"{call.name}: `{name}` is {short}, and the numbers are {dtype_short_name(dtype)}"
        raise RefusalError(message, operand.span, hint=f"write dtype={short}")
    return data.cast(dtype)


def _scale(name: str, low: str, high: str) -> Callable[[Arguments], Value]:
    """Return a function that moves and stretches the numbers of a distribution."""

    def apply_to(call: Arguments) -> Value:
        key, dtype = _key_of(call), _dtype(call)
        first, second = _parameter(call, low, dtype), _parameter(call, high, dtype)
        data = _draw(key, name, _shape(call, *(each for each in (first, second) if each)), dtype)
        if name == "uniform" and first is not None:
            second = (data.like(1) if second is None else second) - first
        data = data if second is None else data * second
        return (data if first is None else data + first).value

    return apply_to


def _exponential(call: Arguments) -> Value:
    key, dtype = _key_of(call), _dtype(call)
    scale = _parameter(call, "scale", dtype)
    data = -(1 - _draw(key, "uniform", _shape(call, *([scale] if scale else [])), dtype)).log()
    return (data if scale is None else data * scale).value


def _gumbel_noise(key: Formula, shape: Sequence[Dim], dtype: str) -> Formula:
    return -(-_uniform_inside(key, shape, dtype).log()).log()


def _gumbel(call: Arguments) -> Value:
    return _gumbel_noise(_key_of(call), _shape(call), _dtype(call)).value


def _bernoulli(call: Arguments) -> Value:
    key = _key_of(call)
    probability = call.given["p"].value if "p" in call else Known(0.5)
    type_ = probability.type if isinstance(probability, Computed) else None
    dtype = "float64" if isinstance(type_, TensorType) and type_.dtype == "float64" else "float32"
    p = _parameter(call, "p", dtype) if "p" in call else None
    data = _draw(key, "uniform", _shape(call, *([p] if p else [])), dtype)
    return (data < (0.5 if p is None else p)).value


def _integers(call: Arguments) -> Value:
    key, dtype = _key_of(call), args.dtype_argument(call) or "int64"
    if not is_integer(dtype):
        raise call.refusal("dtype", f"`dtype` must be an integer dtype, not {dtype_short_name(dtype)}")
    ends = [call.given["low"], call.given["high"]] if "high" in call else [None, call.given["low"]]
    low, high = (Operand(Known(0), call.span) if end is None else symbolic.as_number(end) for end in ends)
    first, last = args.python_number(low.value), args.python_number(high.value)
    if isinstance(first, int) and isinstance(last, int):
        _check_range(call, first, last, dtype, high.span)
        data = _bits(key, _shape(call))
        if last - first < _WORDS:
            data = data.op("floor_mod", constant_of(np.array(last - first, "uint64"), "uint64", call.span))
        start = constant_of(np.array(first, dtype), dtype, call.span)
        return (data.cast(dtype) + start).value
    start, stop = (_integer_tensor(call, end).cast("int64") for end in (low, high))
    data = _bits(key, _shape(call, start, stop))
    # Without an integer between the ends, the remainder of a division by 0, which is 0.
    count = (stop > start).choose((stop - start).cast("uint64"), 0)
    return (data.op("floor_mod", count).cast("int64") + start).cast(dtype).value


def _check_range(call: Arguments, first: int, last: int, dtype: str, span: Span) -> None:
    if first >= last:
        message = f"{call.name}: there is no integer from {first} to before {last}"
        raise RefusalError(message, span, hint="`high` is above `low`, and is not among the numbers")
    held = np.iinfo(dtype)
    if first < held.min or last - 1 > held.max:
        short = dtype_short_name(dtype)
        message = f"{call.name}: {short} holds {held.min} to {held.max}, not {first} to {last - 1}"
        raise RefusalError(message, span, hint="write a wider dtype, as in dtype=i64")


def _integer_tensor(call: Arguments, operand: Operand) -> Formula:
    number = args.python_number(operand.value)
    if isinstance(number, int):
        return constant_of(np.array(number, "int64"), "int64", call.span)
    if isinstance(operand.value, Computed) and isinstance(operand.value.type, TensorType):
        data = Formula(operand.value, call.span)
        if data.is_integer and data.dtype != "uint64":
            return data
    message = f"{call.name}: the ends of the range must be integers, not {describe(operand.value)}"
    raise RefusalError(message, operand.span)


def _bit_words(call: Arguments) -> Value:
    dtype = args.dtype_argument(call) or "uint64"
    if dtype not in ("uint8", "uint16", "uint32", "uint64"):
        raise call.refusal("dtype", f"`dtype` must be one of u8 u16 u32 u64, not {dtype_short_name(dtype)}")
    return _bits(_key_of(call), _shape(call)).cast(dtype).value


# -- choices -------------------------------------------------------------------------------------------


def _order(key: Formula, size: Dim) -> Formula:
    """Return the indices below a size in random order."""
    return _bits(key, (size,)).op("argsort", axis=0, is_ascend=True, dtype="int64")


def _population(call: Arguments, parameter: str, axis: int | None = None) -> tuple[Value, Formula | None]:
    """Return how many items are chosen from, and the items; None for the indices themselves."""
    operand = call.given[parameter]
    count, data = symbolic.as_size(operand), None
    if count is None:
        data = args.formula(call, parameter)
        if data.rank == 0:
            raise call.mismatch(parameter, "an int or a tensor")
        along = args.one_axis(call, "axis", data.rank, 0) if axis is None else axis
        count = symbolic.size_along(data.value, along, call.span)
    size = symbolic.dim_of(count)
    if isinstance(size, AnyDim) and size.label is None:
        message = f"{call.name}: the number of items is not known before the run"
        raise RefusalError(message, operand.span, hint="give a number, or a tensor whose size has a name")
    if isinstance(size, int) and size < (call.name == "random.choice"):
        raise RefusalError(f"{call.name}: there is nothing to choose from", operand.span)
    return count, data


def _permutation(call: Arguments) -> Value:
    key, (count, data) = _key_of(call), _population(call, "x")
    order = _order(key, symbolic.dim_of(count))
    if data is None:
        return order.value
    return data.op("take", order, axis=args.one_axis(call, "axis", data.rank, 0)).value


def _choice(call: Arguments) -> Value:
    key, (count, data) = _key_of(call), _population(call, "a", 0)
    shape, size = _shape(call), symbolic.dim_of(count)
    p = args.formula(call, "p") if "p" in call else None
    if p is not None:
        args.require_float(call, p, "p")
        if p.dtype not in ("float32", "float64"):
            raise call.refusal("p", "`p` must be f32 or f64")
        if p.shape != (size,):
            raise call.refusal("p", f"`p` has the shape {format_shape(p.shape)}, not {format_shape((size,))}")
    if args.flag(call, "replace", default=True):
        index = _with_replacement(key, count, shape, p)
    else:
        index = _without_replacement(call, key, size, shape, p)
    return index.value if data is None else data.op("take", index, axis=0).value


def _with_replacement(key: Formula, count: Value, shape: Sequence[Dim], p: Formula | None) -> Formula:
    if p is None:
        size = Formula(symbolic.number_of(count, key.span), key.span).cast("uint64")
        return _bits(key, shape).op("floor_mod", size).cast("int64")
    total = p.op("cumsum", axis=0)
    draws = _draw(key, "uniform", shape, p.dtype) * total.reduce("max", (0,))
    if shape:
        return total.op("searchsorted", draws, right=True, dtype="int64")
    return total.op("searchsorted", draws.reshape((1,)), right=True, dtype="int64").reshape(())


def _without_replacement(
    call: Arguments, key: Formula, count: Dim, shape: Sequence[Dim], p: Formula | None
) -> Formula:
    wanted = product(shape)
    if not isinstance(count, int) or not isinstance(wanted, int):
        hint = "write random.permutation(key, x)[:k]"
        message = f"{call.name} without replacement needs sizes that are known at compile time"
        raise RefusalError(message, call.span, hint=hint)
    if wanted > count:
        message = f"{call.name}: {wanted} different items cannot be chosen from {count}"
        raise RefusalError(message, call.span, hint="leave replace=False out, or choose fewer")
    if p is None:
        order = _order(key, count)
    else:
        scores = p.log() + _gumbel_noise(key, (count,), p.dtype)
        order = scores.op("argsort", axis=0, is_ascend=False, dtype="int64")
    return order.between(0, 0, wanted).reshape(tuple(shape))


def _categorical(call: Arguments) -> Value:
    key, logits = _key_of(call), args.formula(call, "logits")
    args.require_float(call, logits, "logits")
    axis = args.one_axis(call, "axis", logits.rank, -1)
    noise = _gumbel_noise(key, logits.shape, "float64" if logits.dtype == "float64" else "float32")
    return (logits.cast(noise.dtype) + noise).op("argmax", axis=(axis,)).cast("int64").value


def _row(
    name: str, signature: str, apply_to: Callable[[Arguments], Value], summary: str, aliases: str = ""
) -> Builtin:
    aliases = f"size=shape {aliases}".strip() if "shape?" in signature else aliases
    return cell_function(f"random.{name}", signature, apply_to, summary, aliases=aliases)


_FLOATS = "key shape? dtype?"
RANDOM = (
    _row("key", "seed", _key, "Return the key of a seed: an integer."),
    _row("split", "key num?", _split, "Return num keys, by default 2, as the rows of a tensor."),
    _row("fold_in", "key data", _fold_in, "Return the key for an integer, such as the number of a step."),
    _row(
        "normal",
        f"{_FLOATS} * loc? scale?",
        _scale("normal", "loc", "scale"),
        "Return numbers of the normal distribution.",
        "mean=loc",
    ),
    _row(
        "uniform",
        f"{_FLOATS} * low? high?",
        _scale("uniform", "low", "high"),
        "Return numbers of the uniform distribution over [low, high).",
        "minval=low maxval=high",
    ),
    _row(
        "integers",
        "key low high? shape? dtype?",
        _integers,
        "Return integers from low to before high, or from 0 to before low.",
        "minval=low maxval=high",
    ),
    _row("bernoulli", "key p? shape?", _bernoulli, "Return bools that are true with probability p."),
    _row(
        "exponential", f"{_FLOATS} * scale?", _exponential, "Return numbers of the exponential distribution."
    ),
    _row("gumbel", _FLOATS, _gumbel, "Return numbers of the Gumbel distribution."),
    _row("permutation", "key x axis?", _permutation, "Return a tensor in random order along an axis."),
    _row("choice", "key a shape? replace? p?", _choice, "Return random items along the first axis."),
    _row("categorical", "key logits axis?", _categorical, "Return random indices by log probabilities."),
    _row("bits", "key shape? dtype?", _bit_words, "Return random bits as unsigned integers."),
)
