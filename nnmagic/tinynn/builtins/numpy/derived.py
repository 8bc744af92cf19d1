"""Define NumPy's functions that the language's others express: most are written in it as they stand."""

from __future__ import annotations

import math

from nnmagic.relay.functions import float_parts
from nnmagic.relay.signatures import dtype_short_name
from nnmagic.tinynn.builtins.argument_checks import as_float, formula, pair
from nnmagic.tinynn.builtins.numpy.elementwise import equal_numbers, next_float
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, free_function
from nnmagic.tinynn.types.annotations import dtype_named
from nnmagic.tinynn.values.operator_restrictions import broadcast_shape
from nnmagic.tinynn.values.values import Known, LoopCall, Operand, RefusalError, TupleOf, Value

#: Functions by name: the signature, a summary, and the function in the language.
_TEXTS: dict[str, tuple[str, str, str]] = {
    "diagflat": (
        "v k?=0",
        "Return a matrix with the elements of a tensor on a diagonal.",
        "def diagflat(v, k):\n    return diag(ravel(v), k)\n",
    ),
    "matvec": (
        "x1 x2",
        "Compute the products of matrices and vectors.",
        "def matvec(x1, x2):\n    return matmul(x1, x2[..., None])[..., 0]\n",
    ),
    "vecmat": (
        "x1 x2",
        "Compute the products of vectors and matrices; complex vectors are conjugated.",
        "def vecmat(x1, x2):\n    row = conj(x1) if iscomplexobj(x1) else x1\n"
        "    return matmul(row[..., None, :], x2)[..., 0, :]\n",
    ),
    "setxor1d": (
        "ar1 ar2 assume_unique?=0",
        "Return the distinct elements that only one of both has, in ascending order.",
        "def setxor1d(ar1, ar2, assume_unique):\n"
        "    return sort(concatenate((setdiff1d(ar1, ar2), setdiff1d(ar2, ar1))))\n",
    ),
    "mask_indices": (
        "n mask_func k?=0",
        "Return the indices where a function of masks, such as triu, keeps elements.",
        "def mask_indices(n, mask_func, k):\n    return nonzero(mask_func(ones((n, n), dtype=int), k))\n",
    ),
    "diag_indices_from": (
        "arr",
        "Return the indices of the diagonal of a tensor.",
        "def diag_indices_from(arr):\n    return diag_indices(arr.shape[0], arr.ndim)\n",
    ),
    "tril_indices_from": (
        "arr k?=0",
        "Return the indices of the lower triangle of a matrix.",
        "def tril_indices_from(arr, k):\n    return tril_indices(arr.shape[-2], k, arr.shape[-1])\n",
    ),
    "triu_indices_from": (
        "arr k?=0",
        "Return the indices of the upper triangle of a matrix.",
        "def triu_indices_from(arr, k):\n    return triu_indices(arr.shape[-2], k, arr.shape[-1])\n",
    ),
    "compress": (
        "condition a axis?",
        "Return the elements, or the slices along an axis, where a condition is true.",
        "def compress(condition, a, axis):\n    kept = nonzero(asarray(condition))[0]\n"
        "    return take(ravel(a), kept) if axis is None else take(a, kept, axis=axis)\n",
    ),
    "extract": (
        "condition arr",
        "Return the elements where a condition is true.",
        "def extract(condition, arr):\n    return take(ravel(arr), nonzero(ravel(asarray(condition)))[0])\n",
    ),
    "trim_zeros": (
        "filt trim?='fb'",
        "Return a vector without the zeros at its ends, or at the front (f) or the back (b) alone.",
        "def trim_zeros(filt, trim):\n    filt = asarray(filt)\n    kept = nonzero(filt)[0]\n"
        "    if len(kept) == 0:\n        return filt[:0]\n"
        "    first = kept[0] if 'f' in trim.lower() else 0\n"
        "    return filt[first:(kept[-1] + 1 if 'b' in trim.lower() else len(filt))]\n",
    ),
    "fromfunction": (
        "function shape dtype?=f64",
        "Return what a function gives for the indices of a shape.",
        "def fromfunction(function, shape, dtype):\n"
        "    return function(*[each.astype(dtype) for each in indices(shape)])\n",
    ),
    "histogram_bin_edges": (
        "a bins?=10 range? weights?",
        "Return the edges of the bins of a histogram.",
        "def histogram_bin_edges(a, bins, range, weights):\n    return histogram(a, bins, range)[1]\n",
    ),
}

_DEFAULTS = {"k": 0, "bins": 10, "assume_unique": 0, "trim": "fb", "dtype": dtype_named("float64")}


def _text(name: str) -> Builtin:
    signature, summary, text = _TEXTS[name]
    parameters = [word.partition("?")[0] for word in signature.split()]

    def apply_to(call: Arguments) -> Value:
        operands = [
            call.given.get(parameter, Operand(Known(_DEFAULTS.get(parameter)), call.span))
            for parameter in parameters
        ]
        return LoopCall("text", tuple(operands), text=text)

    return free_function(name, signature, apply_to, summary)


def _array_equiv(call: Arguments) -> Value:
    lhs, rhs = pair(call, "a1", "a2")
    if broadcast_shape([lhs.shape, rhs.shape]) is None:
        return Known(value=False)
    return equal_numbers(lhs, rhs).reduce("all").value


def _bitwise_count(call: Arguments) -> Value:
    """Count the bits of absolute values, in halves that grow."""
    data = formula(call, "x")
    if not data.is_integer and data.dtype != "bool":
        message = f"bitwise_count is defined for integers, not {dtype_short_name(data.dtype)}"
        raise RefusalError(message, call.at("x"))
    signed = data.dtype.startswith("int")
    bits = (data.abs().cast(f"u{data.dtype}") if signed else data).cast("uint64")
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        upper = bits.op("right_shift", shift).op("bitwise_and", mask)
        bits = bits.op("bitwise_and", mask) + upper
    for shift in (8, 16, 32):
        bits = bits + bits.op("right_shift", shift)
    return bits.op("bitwise_and", 0x7F).cast("uint8").value


def _float_power(call: Arguments) -> Value:
    lhs, rhs = pair(call, "x1", "x2")
    wide = "complex128" if lhs.is_complex else "float64"
    return (lhs.cast(wide) ** rhs.cast(wide)).value


def _frexp(call: Arguments) -> Value:
    mantissa, exponent = float_parts.frexp(as_float(formula(call, "x")))
    return TupleOf((mantissa.value, exponent.cast("int32").value))


def _ldexp(call: Arguments) -> Value:
    data, exponent = as_float(formula(call, "x1")), formula(call, "x2")
    if not exponent.is_integer:
        raise call.refusal("x2", f"`x2` holds integers, not {dtype_short_name(exponent.dtype)}")
    return float_parts.ldexp(data, exponent).value


def _spacing(call: Arguments) -> Value:
    data = as_float(formula(call, "x"))
    away = (data.op("zeros_like") + math.inf).op("numpy.copysign", data)
    gap = next_float(data, away) - data
    return data.op("isinf").choose(math.nan, gap).value


def _i0(call: Arguments) -> Value:
    data = formula(call, "x")
    return (data if data.is_float else data.cast("float64")).op("special.i0").value


def _resize(call: Arguments) -> Value:
    shape = call.static("new_shape")
    sizes = shape if isinstance(shape, tuple) else (shape,)
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise RefusalError("resize takes a shape of numbers", call.at("new_shape"))
    total = math.prod(size for size in sizes if isinstance(size, int))
    text = (
        f"def resize(a):\n    flat = ravel(a)\n"
        f"    return take(flat, arange({total}) % len(flat)).reshape({tuple(sizes)})\n"
    )
    return LoopCall("text", (call.given["a"],), text=text)


def _sort_complex(call: Arguments) -> Value:
    data = formula(call, "a")
    if data.is_complex:
        text = (
            "def sort_complex(a):\n    order = lexsort((imag(a), real(a)))\n"
            "    return take_along_axis(a, order, axis=-1)\n"
        )
        return LoopCall("text", (Operand(data.value, call.at("a")),), text=text)
    narrow = data.dtype in ("int8", "uint8", "int16", "uint16")
    text = f"def sort_complex(a):\n    return sort(a, axis=-1).astype({'c64' if narrow else 'c128'})\n"
    return LoopCall("text", (Operand(data.value, call.at("a")),), text=text)


def _over_axes(call: Arguments) -> Value:
    axes = call.static("axes")
    listed = axes if isinstance(axes, tuple) else (axes,)
    if not all(isinstance(axis, int) for axis in listed):
        raise RefusalError("apply_over_axes takes axes that are ints", call.at("axes"))
    rank = formula(call, "a").rank
    lines = ["def over(func, a):\n"]
    for axis in listed:
        assert isinstance(axis, int)
        axis_ = axis + rank if axis < 0 else axis
        lines.append(
            f"    b = func(a, {axis_})\n    a = b if b.ndim == {rank} else expand_dims(b, {axis_})\n"
        )
    lines.append("    return a\n")
    return LoopCall("text", (call.given["func"], call.given["a"]), text="".join(lines))


def _polydiv(call: Arguments) -> Value:
    """Divide by the schoolbook method; the remainder begins with its first coefficient that is not 0."""
    u, v = pair(call, "u", "v")
    wide = [
        polynomial if polynomial.is_float or polynomial.is_complex else polynomial.cast("float64")
        for polynomial in (u, v)
    ]
    sizes = [polynomial.shape[0] if polynomial.rank == 1 else None for polynomial in wide]
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        raise RefusalError("polydiv takes vectors of known size", call.span)
    m, n = (int(str(size)) for size in sizes)
    quotient = max(m - n + 1, 1)
    text = (
        f"def polydiv(u, v):\n    r = u.copy()\n    q = zeros({quotient}, dtype=u.dtype)\n"
        f"    for k in range({m - n + 1}):\n        d = r[k] / v[0]\n        q[k] = d\n"
        f"        for i in range({n}):\n            r[k + i] = r[k + i] - d * v[i]\n"
        f"    first = 0\n    while first < {m - 1} and abs(r[first]) <= 1e-8:\n        first = first + 1\n"
        "    return q, r[first:]\n"
    )
    operands = (Operand(polynomial.value, call.at(name)) for polynomial, name in zip(wide, "uv", strict=True))
    return LoopCall("text", tuple(operands), text=text)


DERIVED = (
    *map(_text, _TEXTS),
    free_function(
        "array_equiv", "a1 a2", _array_equiv, "Test whether two tensors are equal where they broadcast."
    ),
    free_function(
        "bitwise_count", "x", _bitwise_count, "Count the bits that are set in absolute values, as u8."
    ),
    free_function("float_power", "x1 x2", _float_power, "Compute x1 ** x2 in f64."),
    free_function("frexp", "x", _frexp, "Return mantissas from 1/2 to 1, and exponents of 2, as i32."),
    free_function("ldexp", "x1 x2", _ldexp, "Compute x1 * 2 ** x2."),
    free_function("spacing", "x", _spacing, "Return the distance to the next float away from 0."),
    free_function("i0", "x", _i0, "Compute the modified Bessel function of order 0."),
    free_function("resize", "a new_shape", _resize, "Repeat a tensor until it fills a shape."),
    free_function(
        "sort_complex", "a", _sort_complex, "Sort by real, then by imaginary parts, as complex numbers."
    ),
    free_function(
        "apply_over_axes", "func a axes", _over_axes, "Apply a reduction along several axes, which stay."
    ),
    free_function("polydiv", "u v", _polydiv, "Return the quotient and the remainder of two polynomials."),
)
