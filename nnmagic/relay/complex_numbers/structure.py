"""Lower operators that move complex elements: on tensors of pairs where they can, else on both parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from nnmagic.relay import expr as ir
from nnmagic.relay.complex_numbers.expressions import Parts
from nnmagic.relay.complex_numbers.site import ComplexCall, Rule, each_part, is_made, is_number, make_complex
from nnmagic.relay.ops.calls import call
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import is_complex, part_dtype

#: Returns the attributes of the same operator on pairs; None where it has none.
_OnPairs = Callable[[ComplexCall], "dict[str, object] | None"]


def _movement(on_pairs: _OnPairs) -> Rule:
    """Return the rule of an operator of one complex tensor."""

    def rule(site: ComplexCall) -> ir.Expr:
        attrs = None if site.is_made(0) else on_pairs(site)
        return each_part(site) if attrs is None else site.call(*site.args, **attrs)

    return rule


def _axis(site: ComplexCall) -> dict[str, object] | None:
    axis = site.attrs["axis"]
    return {"axis": axis % site.rank()} if isinstance(axis, int) else None


def _axes(site: ComplexCall) -> dict[str, object]:
    """Return the axes of a reduction, all by default, without that of the pairs."""
    axes, rank = site.attrs["axis"], site.rank()
    given = range(rank) if axes is None else axes if isinstance(axes, Sequence) else [axes]
    chosen = {int(cast(int, axis)) % rank for axis in given}
    if site.attrs["exclude"]:
        chosen = set(range(rank)) - chosen
    return {"axis": tuple(sorted(chosen)), "exclude": False}


def _reduction(site: ComplexCall) -> ir.Expr:
    axes = _axes(site)
    if not axes["axis"]:
        return site.args[0]
    if site.is_made(0):
        pair = site.parts()
        re, im = (site.real(site.call(component.expr, **axes)) for component in (pair.re, pair.im))
        return make_complex(Parts(re, im))
    return site.call(*site.args, **axes)


def _squeeze(site: ComplexCall) -> dict[str, object]:
    axes, shape = site.attrs["axis"], site.type().shape
    if axes is None:
        return {"axis": tuple(axis for axis, dim in enumerate(shape) if dim == 1)}
    return {"axis": tuple(axis % len(shape) for axis in cast("Sequence[int]", axes))}


def _reshape(site: ComplexCall) -> dict[str, object] | None:
    codes = cast("Sequence[int]", site.attrs["newshape"])
    return None if any(code < -1 for code in codes) else {"newshape": (*codes, 2)}


def _strided_slice(site: ComplexCall) -> dict[str, object]:
    axes = site.attrs["axes"]
    return {} if axes is None else {"axes": tuple(axis % site.rank() for axis in cast("Sequence[int]", axes))}


def _transpose(site: ComplexCall) -> dict[str, object]:
    axes, rank = site.attrs["axes"], site.rank()
    given = range(rank)[::-1] if axes is None else cast("Sequence[int]", axes)
    return {"axes": (*(axis % rank for axis in given), rank)}


def _expand_dims(site: ComplexCall) -> dict[str, object]:
    axis, count = cast(int, site.attrs["axis"]), cast(int, site.attrs["num_newaxis"])
    rank = site.rank()
    return {"axis": axis if axis >= 0 else axis + rank + 1, "num_newaxis": count}


def _broadcast_to(site: ComplexCall) -> dict[str, object]:
    return {"shape": (*cast("Sequence[object]", site.attrs["shape"]), 2), "dtype": ""}


def _cumsum(site: ComplexCall) -> ir.Expr:
    dtype = site.attrs["dtype"] and part_dtype(site.result.dtype)
    axis = site.attrs["axis"]
    if site.is_made(0) or not isinstance(axis, int):
        pair = site.parts()
        re, im = (site.real(site.call(component.expr, dtype=dtype)) for component in (pair.re, pair.im))
        return make_complex(Parts(re, im))
    return site.call(*site.args, axis=axis % site.rank(), dtype=dtype)


def _take(site: ComplexCall) -> ir.Expr:
    axis = site.attrs["axis"]
    if site.is_made(0) or not isinstance(axis, int):
        return each_part(site)
    return site.call(*site.args, axis=axis % site.rank())


def _join(site: ComplexCall) -> ir.Expr:
    """Join tensors of pairs as they are; of parts, the parts."""
    fields = site.fields()
    if any(is_made(expr) for expr, _ in fields):
        return each_part(site)
    rank = len(fields[0][1].shape) + (site.name == "stack")
    whole = ir.Tuple(tuple(expr for expr, _ in fields), span=site.span)
    return site.call(whole, axis=cast(int, site.attrs["axis"]) % rank)


def _update(site: ComplexCall) -> ir.Expr:
    """Put updates into a tensor of pairs: a loop that changes it element by element changes it in place."""
    if site.name == "scatter_nd" and site.forms.tuples and is_number(site.type(2)):
        return _update_number(site)
    return site.call(*map(site.pairs, range(len(site.args))))


def _update_number(site: ComplexCall) -> ir.Expr:
    """Put one number into a tensor of pairs, each of its parts as an element."""
    data, indices, dtype = site.pairs(0), site.args[1], site.type(1).dtype
    for at, part in enumerate((site.parts(2).re, site.parts(2).im)):
        place = ir.Constant(np.array([at], dtype))
        whole = call("concatenate", [ir.Tuple((indices, place), span=site.span)], site.span, axis=0)
        data = site.call(data, whole, part.expr)
    return data


def _creation(site: ComplexCall) -> ir.Expr:
    """Fill a new tensor with zeros or ones."""
    dtype = part_dtype(site.result.dtype)
    shape = cast("Sequence[object]", site.attrs["shape"])
    if site.name == "zeros":
        return site.call(shape=(*shape, 2), dtype=dtype)
    re, im = (call(name, [], site.span, shape=shape, dtype=dtype) for name in ("ones", "zeros"))
    return make_complex(Parts(site.real(re), site.real(im)))


def _full(site: ComplexCall) -> ir.Expr:
    """Fill a new tensor with a number, complex or not; a size of `dyn.full` stays an operand."""
    dtype = part_dtype(site.result.dtype)
    if site.is_complex(0):
        number = site.parts().cast(dtype)
    else:
        re = TensorExpr(site.args[0], site.type().dtype, site.span).cast(dtype)
        number = Parts(re, re.op("zeros_like"))
    attr = site.attrs.get("dtype")
    filled = [site.call(part.expr, *site.args[1:], dtype=attr and dtype) for part in (number.re, number.im)]
    return make_complex(Parts(*map(site.real, filled)))


def _dyn_zeros(site: ComplexCall) -> ir.Expr:
    dtype = part_dtype(site.result.dtype)
    zeros = site.real(site.call(*site.args, dtype=dtype))
    return make_complex(Parts(zeros, zeros))


def _of_shape(site: ComplexCall) -> ir.Expr:
    """Apply an operator that reads the shape alone to one part."""
    return site.call(site.parts().re.expr)


def _like_shape(site: ComplexCall) -> ir.Expr:
    """Apply an operator whose last operand gives a shape alone."""
    like = site.parts(1).re.expr if site.is_complex(1) else site.args[1]
    if not site.is_complex(0):
        return site.call(site.args[0], like)
    pair = site.parts()
    re, im = (site.real(site.call(component.expr, like)) for component in (pair.re, pair.im))
    return make_complex(Parts(re, im))


def _adv_index(site: ComplexCall) -> ir.Expr:
    """Index with arrays: the first operand alone is complex."""
    fields = site.fields()
    indices = [expr for expr, _ in fields[1:]]
    expr, type_ = fields[0]
    if not is_made(expr):
        return site.call(ir.Tuple((expr, *indices), span=site.span))
    assert is_complex(type_.dtype)
    pair = site.forms.parts(expr, type_, site.span)
    both = (
        site.call(ir.Tuple((component.expr, *indices), span=site.span)) for component in (pair.re, pair.im)
    )
    return make_complex(Parts(*map(site.real, both)))


def _fourier(site: ComplexCall) -> ir.Expr:
    """Transform pairs, or real numbers, which become pairs."""
    axis = cast(int, site.attrs["axis"]) % site.rank()
    return site.call(site.pairs(), axis=axis, pairs=True)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("numpy.fft", "numpy.rfft", "numpy.irfft"), _fourier),
    "reshape": _movement(_reshape),
    "transpose": _movement(_transpose),
    "expand_dims": _movement(_expand_dims),
    "squeeze": _movement(_squeeze),
    "strided_slice": _movement(_strided_slice),
    "broadcast_to": _movement(_broadcast_to),
    "reverse": _movement(_axis),
    "repeat": _movement(_axis),
    "cumsum": _cumsum,
    "sum": _reduction,
    "mean": _reduction,
    "take": _take,
    "concatenate": _join,
    "stack": _join,
    "split": lambda site: site.call(site.pairs(), axis=cast(int, site.attrs["axis"]) % site.rank()),
    "scatter_nd": _update,
    "strided_set": _update,
    "adv_index": _adv_index,
    "zeros": _creation,
    "ones": _creation,
    "full": _full,
    "full_like": each_part,
    "dyn.full": _full,
    "dyn.zeros": _dyn_zeros,
    "broadcast_to_like": _like_shape,
    "reshape_like": _like_shape,
    "python.sized": _like_shape,
    "shape_of": _of_shape,
    "ndarray_size": _of_shape,
    **dict.fromkeys(
        (
            *("dyn.reshape", "dyn.squeeze", "dyn.strided_slice", "dyn.tile", "dyn.broadcast_to"),
            "python.window",
            *("contrib_reverse_reshape", "tile", "gather", "gather_nd", "trilu", "matrix_set_diag"),
            *("scatter_elements", "nn.batch_flatten", "nn.pad", "nn.mirror_pad", "dyn.nn.pad"),
        ),
        each_part,
    ),
}
