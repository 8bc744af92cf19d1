"""Define PyTorch's functions and methods whose names, arguments or defaults are not NumPy's.

Most are functions of the language with their arguments in PyTorch's order. A function that means something
else in NumPy under the same name has PyTorch's meaning only where it is written ``torch.name``.

Their reference: https://docs.pytorch.org/docs/stable/torch.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nnmagic.relay.ops import OPERATORS
from nnmagic.tinynn.builtins.argument_checks import (
    constant_array,
    dtype_argument,
    flag,
    formula,
    one_axis,
    python_number,
    shape_argument,
    static_int,
    static_size,
    static_value_or_none,
)
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import broadcast
from nnmagic.tinynn.builtins.torch_meaning import RESULTS, TORCH_PRODUCTS, torch_meanings
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.subscripts import subscript
from nnmagic.tinynn.types.annotations import DTYPES
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.operator_calls import call_operator
from nnmagic.tinynn.values.symbolic_sizes import product_of, shape_of
from nnmagic.tinynn.values.values import Known, Operand, RefusalError, SliceOf, TupleOf, Value

_Table = Mapping[str, Builtin]
_DATA = "input=a x=a self=a data=a tensor=a"


def _default_dtype(builtin: Builtin, ends: Sequence[str] = ()) -> Callable[[Arguments], Value]:
    """Return a function that makes f32 unless a dtype is given, or all of its numbers are integers."""

    def apply_to(call: Arguments) -> Value:
        integers = [
            isinstance(python_number(call.given[name].value), int)
            or not isinstance(call.given[name].value, Known)
            for name in ends
            if name in call
        ]
        if "dtype" in call or (integers and all(integers)):
            return builtin.apply(call)
        dtype = Operand(Known(DTYPES["f32"]), call.span)
        return builtin.apply(Arguments(call.name, {**call.given, "dtype": dtype}, call.span))

    return apply_to


def _tensor(call: Arguments) -> Value:
    """Return nested lists as a tensor; floats are f32."""
    dtype = dtype_argument(call)
    known = static_value_or_none(call.given["object"].value)
    if isinstance(known, tuple):
        made = constant_array(call, "object", dtype)
        data = Formula(made, call.span)
        return (data.cast("float32") if dtype is None and data.dtype == "float64" else data).value
    data = formula(call, "object")
    if dtype is None and python_number(call.given["object"].value) is not None and data.dtype == "float64":
        dtype = "float32"
    return (data if dtype is None else data.cast(dtype)).value


def _masked_fill(call: Arguments) -> Value:
    data, mask = formula(call, "a"), formula(call, "mask")
    if mask.dtype != "bool":
        message = f"masked_fill: `mask` must hold bools, not {describe(call.given['mask'].value)}"
        hint = f"compare it, as in {source_text(call.at('mask'))} != 0"
        raise RefusalError(message, call.at("mask"), hint=hint)
    number = python_number(call.given["value"].value)
    if isinstance(number, bool | int | float):
        return mask.choose(data.like(number), data).value
    value = formula(call, "value")
    if value.rank or value.dtype != data.dtype:
        raise call.mismatch("value", "a number")
    return mask.choose(value, data).value


def _topk(call: Arguments) -> Value:
    data = formula(call, "a")
    axis = one_axis(call, "dim", data.rank, -1)
    size = static_size(call, data.shape[axis], call.at("a"))
    k = static_int(call, "k")
    if not 0 <= k <= size:
        raise RefusalError(f"topk: k is {k}, and the dimension {axis} has {size} elements", call.at("k"))
    attrs = {"k": k, "axis": axis, "ret_type": "both", "is_ascend": not flag(call, "largest", default=True)}
    operands = [Operand(data.value, call.span)]
    result = call_operator(OPERATORS["topk"], operands, {**attrs, "dtype": "int64"}, call.span)
    assert isinstance(result, TupleOf)
    return replace(result, names=RESULTS)


def _expand(call: Arguments) -> Value:
    data, operand = formula(call, "a"), call.given["size"]
    known = call.static("size")
    sizes = known if isinstance(known, tuple) else (known,)
    before = len(sizes) - data.rank
    if before < 0:
        raise RefusalError(f"expand: {len(sizes)} sizes for a tensor of rank {data.rank}", operand.span)
    kept = [
        Known(data.shape[index - before] if size == -1 and index >= before else size)
        for index, size in enumerate(sizes)
    ]
    given = Operand(TupleOf(tuple(kept)), operand.span)
    shape = shape_argument(Arguments("expand", {"size": given}, call.span), "size")
    return broadcast(data, shape).value


def _transpose(builtins: _Table, call: Arguments) -> Value:
    """Permute the axes as NumPy does; of a tensor of another rank, two numbers are PyTorch's."""
    data, operand = formula(call, "a"), call.given.get("axes")
    items = operand.value.items if operand and isinstance(operand.value, TupleOf) else ()
    if operand is not None and len(items) == 2:
        calls = (Arguments("transpose", {"axis": Operand(item, operand.span)}, call.span) for item in items)
        first, second = (one_axis(each, "axis", data.rank) for each in calls)
        if data.rank != 2:
            order = list(range(data.rank))
            order[first], order[second] = second, first
            return data.transpose(order).value
        if (first, second) == (0, 1):
            message = "transpose(0, 1) changes nothing in NumPy, and swaps the two dimensions in PyTorch"
            raise RefusalError(
                message, operand.span, hint=f"write {source_text(call.at('a'))}.T to swap them"
            )
    return builtins["transpose"].apply(call)


def _swap(call: Arguments) -> Value:
    data = formula(call, "a")
    if data.rank > 2:
        hint = "write .mT, or .transpose(1, 2) with the two dimensions"
        raise RefusalError(f"t() is of tensors of rank 2 or less, not {data.rank}", call.span, hint=hint)
    return data.transpose((1, 0)).value if data.rank == 2 else data.value


def _cast_to(dtype: str) -> Callable[[Arguments], Value]:
    return lambda call: formula(call, "a").cast(dtype).value


def _to(call: Arguments) -> Value:
    """Convert to a dtype; where a tensor is, a cell does not say."""
    data = formula(call, "a")
    if "dtype" in call and not isinstance(call.static("dtype"), str):
        dtype = dtype_argument(call)
        return data.value if dtype is None else data.cast(dtype).value
    return data.value


def _same(call: Arguments) -> Value:
    return formula(call, "a").value


def _size(call: Arguments) -> Value:
    data = formula(call, "a")
    sizes = shape_of(data.value, call.span)
    if "dim" not in call:
        return sizes
    return sizes.items[one_axis(call, "dim", data.rank)]


def _numel(call: Arguments) -> Value:
    return product_of(shape_of(formula(call, "a").value, call.span).items, call.span)


def _as(name: str, **parameters: str) -> Callable[[_Table, Arguments], Value]:
    """Return a function that calls NumPy's of a name, whose parameters are those given here."""

    def apply_to(builtins: _Table, call: Arguments) -> Value:
        given = {own: call.given[torch] for own, torch in parameters.items() if torch in call}
        return builtins[name].apply(Arguments(call.name, given, call.span))

    return apply_to


def _batch_norm(builtins: _Table, call: Arguments) -> Value:
    """Normalize with the arguments in PyTorch's order, which ``F.`` says."""
    given = {name: replace(operand, keyword=operand.keyword or name) for name, operand in call.given.items()}
    return builtins["batch_norm"].apply(Arguments(call.name, given, call.span))


def _type_as(call: Arguments) -> Value:
    return formula(call, "a").cast(formula(call, "other").dtype).value


def _scatter(call: Arguments) -> Value:
    """Put the elements of ``src``, or one number, where the indices say along an axis."""
    data, index = formula(call, "a"), formula(call, "index")
    axis = one_axis(call, "dim", data.rank)
    number = python_number(call.given["src"].value)
    if isinstance(number, bool | int | float):
        source = broadcast(data.like(number), index.shape)
    else:
        source = formula(call, "src")
    if source.dtype != data.dtype or index.rank != data.rank or source.rank != data.rank:
        raise call.refusal("src", "`index` and `src` must have the rank of the tensor, and `src` its dtype")
    return data.op("scatter_elements", index.cast("int64"), source, axis=axis).value


def _unfold(builtins: _Table, call: Arguments) -> Value:
    """Return the windows along a dimension, each ``step`` after the one before, as the last axis."""
    data, step = formula(call, "a"), static_int(call, "step")
    axis = one_axis(call, "dimension", data.rank)
    if step < 1:
        raise RefusalError(f"unfold: the step {step} is not positive", call.at("step"))
    given = [call.given["a"], call.given["size"], Operand(Known(axis), call.span, "axis")]
    windows = Operand(builtins["sliding_window_view"].call(given, call.span), call.span)
    if step == 1:
        return windows.value
    every = SliceOf(Known(None), Known(None), Known(None))
    chosen = SliceOf(Known(None), Known(None), Known(step))
    index = [Operand(chosen if each == axis else every, call.span) for each in range(data.rank)]
    return subscript(windows, index, call.span)


def _lerp(call: Arguments) -> Value:
    start = formula(call, "a")
    return (start + formula(call, "weight").cast(start.dtype) * (formula(call, "end") - start)).value


def _truth(call: Arguments) -> Value:
    return formula(call, "a").truth().value


def _both_extremes(builtins: _Table, call: Arguments) -> Value:
    operands = [replace(operand, keyword=key) for key, operand in call.given.items() if key != "a"]
    both = (builtins[name].call([call.given["a"], *operands], call.span) for name in ("amin", "amax"))
    return TupleOf(tuple(both), names=("min", "max"))


def _moments(builtins: _Table, name: str) -> Callable[[Arguments], Value]:
    """Return the standard deviation or the variance, and the mean."""
    own = torch_meanings(builtins)[name]

    def apply_to(call: Arguments) -> Value:
        places = {key: operand for key, operand in call.given.items() if key in ("a", "axis", "keepdims")}
        mean = builtins["mean"].apply(Arguments("mean", places, call.span))
        return TupleOf((own.apply(call), mean))

    return apply_to


def _distances(call: Arguments) -> Value:
    """Return the Euclidean distance of each row of one matrix from each row of the other."""
    lhs, rhs = formula(call, "x1"), formula(call, "x2")
    if lhs.rank < 2 or lhs.rank != rhs.rank:
        raise RefusalError("cdist takes two matrices, or batches of them", call.span)
    gap = lhs.expand(lhs.rank - 1) - rhs.expand(rhs.rank - 2)
    return (gap * gap).reduce("sum", (gap.rank - 1,)).sqrt().value


def _meshgrid(builtins: _Table, call: Arguments) -> Value:
    indexing = Operand(Known("ij"), call.span)
    return builtins["meshgrid"].apply(Arguments("meshgrid", {"indexing": indexing, **call.given}, call.span))


def _with(builtins: _Table, function: Callable[[_Table, Arguments], Value]) -> Callable[[Arguments], Value]:
    return lambda call: function(builtins, call)


def torch_methods(builtins: _Table) -> dict[str, Builtin]:
    """Return PyTorch's methods of tensors that NumPy lacks, by name."""

    def row(name: str, signature: str, apply_to: Callable[[Arguments], Value], summary: str) -> Builtin:
        return Builtin(name, signature, apply_to, summary, aliases=_DATA)

    def rename(name: str, other: str, signature: str | None = None, aliases: str = "") -> Builtin:
        method = builtins[other]
        aliases = f"{method.aliases} {aliases}".strip()
        return replace(
            method, name=name, signature=signature or method.signature, aliases=aliases, numpy=None
        )

    rows = [
        rename("view", "reshape", "a *newshape"),
        rename("unsqueeze", "expand_dims", "a axis", "dim=axis"),
        rename("clamp", "clip", None, "min=a_min max=a_max"),
        *(rename(name, "matmul") for name in ("mm", "bmm", "mv")),
        *(
            rename(name, other, "x1 x2", "other=x2")
            for name, other in (("sub", "subtract"), ("mul", "multiply"), ("div", "divide"))
        ),
        row("masked_fill", "a mask value", _masked_fill, "Return value where the mask is true."),
        row("t", "a", _swap, "Return the matrix with its dimensions swapped."),
        row("contiguous", "a", _same, "Return the tensor itself."),
        row("cpu", "a", _same, "Return the tensor itself."),
        row("numpy", "a", _same, "Return the tensor itself."),
        row("bool", "a", _truth, "Return whether each element is not 0."),
        row("lerp", "a end weight", _lerp, "Return a + weight * (end - a)."),
        row(
            "unfold",
            "a dimension size step",
            _with(builtins, _unfold),
            "Return windows along a dimension, as the last axis.",
        ),
        replace(
            row("aminmax", "a * axis? keepdims?", _with(builtins, _both_extremes), "Return (min, max)."),
            aliases=f"{_DATA} dim=axis keepdim=keepdims",
        ),
        row(
            "clone",
            "a",
            _with(builtins, _as("copy", a="a")),
            "Return a copy, whose elements may be assigned.",
        ),
        row("expand", "a *size", _expand, "Broadcast to sizes; -1 keeps one."),
        row("to", "a dtype?", _to, "Convert to a dtype; a device means nothing."),
        row("type_as", "a other", _type_as, "Convert to the dtype of another tensor."),
        row("scatter", "a dim index src", _scatter, "Return a copy with elements replaced by indices."),
        row("dim", "a", lambda call: Known(formula(call, "a").rank), "Return the number of dimensions."),
        row("numel", "a", _numel, "Return the number of elements."),
        row(
            "chunk",
            "a chunks dim?",
            _with(builtins, _as("split", ary="a", indices_or_sections="chunks", axis="dim")),
            "Split into equal parts; returns a tuple.",
        ),
        row(
            "gather",
            "a dim index",
            _with(builtins, _as("take_along_axis", arr="a", indices="index", axis="dim")),
            "Return elements by indices.",
        ),
        row(
            "index_select",
            "a dim index",
            _with(builtins, _as("take", a="a", indices="index", axis="dim")),
            "Return slices at indices.",
        ),
        row(
            "topk", "a k dim? largest? sorted?", _topk, "Return (values, indices) of the k largest elements."
        ),
    ]
    dtypes = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32"}
    rows += [row(name, "a", _cast_to(dtype), f"Convert to {dtype}.") for name, dtype in dtypes.items()]
    return {each.name: each for each in rows}


#: The functions of torch that are NumPy's, with their arguments in the same order.
_SAME = tuple(
    """
    exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh
    atanh arcsin arccos arctan arcsinh arccosh arctanh deg2rad rad2deg abs absolute negative positive
    square sign floor ceil trunc fix isnan isinf isfinite isposinf isneginf signbit logical_not
    reciprocal subtract multiply divide true_divide floor_divide remainder fmod pow maximum minimum fmax
    fmin hypot arctan2 atan2 logaddexp logaddexp2 copysign heaviside logical_and logical_or logical_xor
    bitwise_and bitwise_or bitwise_xor bitwise_not round nan_to_num clip isclose allclose where erf erfc
    sigmoid relu selu softmax log_softmax logsumexp sum mean prod all any argmax argmin amax amin cumsum
    cumprod count_nonzero nansum nanmean reshape flatten squeeze swapaxes moveaxis broadcast_to
    concatenate concat stack hstack vstack dstack column_stack tile flip fliplr flipud roll rot90 tril
    triu diagonal trace diag zeros_like ones_like empty_like full_like matmul dot outer vdot inner
    einsum tensordot kron argsort searchsorted diff conj real imag angle layer_norm group_norm
    batch_norm bilinear celu dropout hardshrink prelu conv1d conv2d conv3d conv_transpose1d
    conv_transpose2d conv_transpose3d
    """.split()  # noqa: SIM905 - a table of names reads best as text
)


def torch_functions(builtins: _Table, methods: _Table) -> dict[str, Builtin]:
    """Return what a cell can call as ``torch.name``."""
    return _shared_functions(builtins, methods) | _renamed_functions(builtins)


def _shared_functions(builtins: _Table, methods: _Table) -> dict[str, Builtin]:
    """Return the functions that are NumPy's, or methods of tensors, too."""
    table = {name: builtins[name] for name in _SAME}
    table |= {name: builtin for name, builtin in methods.items() if name not in ("float", "double", "half")}
    others = ("long", "int", "to", "cpu", "contiguous", "view", "expand", "dim", "bool", "numpy", "unfold")
    for name in others:
        table.pop(name)
    zeros = {name: builtins[name] for name in ("zeros", "ones", "empty")}
    for name, torch_name in zeros.items():
        signature = "*shape * dtype? device? requires_grad?"
        table[name] = replace(
            torch_name, signature=signature, apply=_default_dtype(torch_name), aliases="size=shape"
        )
    return table


def _renamed_functions(builtins: _Table) -> dict[str, Builtin]:
    """Return the functions that take other arguments than NumPy's, or have other names."""
    full, arange, linspace, eye = (builtins[name] for name in ("full", "arange", "linspace", "eye"))
    tensor = Builtin(
        "tensor", "object dtype? * device?", _tensor, "Convert to a tensor.", aliases="data=object"
    )
    ends = {name: _default_dtype(torch_name, parts) for name, torch_name, parts in _by_ends(full, arange)}
    return {
        "cat": replace(builtins["concat"], name="cat", numpy=None),
        "full": replace(
            full,
            signature=f"{full.signature} device?",
            apply=ends["full"],
            aliases=f"{full.aliases} size=shape",
        ),
        "arange": replace(
            arange, signature="start stop? step?=1 * dtype? device?", apply=ends["arange"], aliases="end=stop"
        ),
        "linspace": replace(
            linspace,
            signature="start stop num * dtype? device?",
            apply=_default_dtype(linspace),
            aliases="end=stop steps=num",
        ),
        "eye": replace(eye, signature="N M? * dtype? device?", apply=_default_dtype(eye), aliases="n=N m=M"),
        "transpose": replace(builtins["swapaxes"], name="transpose"),
        "permute": replace(
            builtins["transpose"], name="permute", signature="a axes", aliases=f"dims=axes {_DATA}"
        ),
        **dict.fromkeys(("tensor", "as_tensor"), tensor),
        **{name: builtins[other] for name, other in _COMPARISONS.items()},
        "batch_norm": functional_batch_norm(builtins),
        **torch_meanings(builtins),
        **{
            f"{name}_mean": replace(
                torch_meanings(builtins)[name],
                name=f"{name}_mean",
                apply=_moments(builtins, name),
                summary=f"Return ({name}, mean); n - 1 is the divisor.",
            )
            for name in ("std", "var")
        },
        "cdist": Builtin("cdist", "x1 x2", _distances, "Return the distances of rows."),
        "bincount": replace(builtins["bincount"], aliases="input=x"),
        "unique": replace(
            builtins["unique"],
            signature="ar sorted? return_inverse? return_counts? axis?",
            aliases="input=ar dim=axis",
        ),
        "meshgrid": replace(
            builtins["meshgrid"], signature="*arrays * indexing?", apply=_with(builtins, _meshgrid)
        ),
        **{name: declare(builtins) for name, declare in TORCH_PRODUCTS.items()},
    }


def _by_ends(full: Builtin, arange: Builtin) -> tuple[tuple[str, Builtin, tuple[str, ...]], ...]:
    """Return the functions whose numbers decide their dtype, with the parameters that hold them."""
    return ("full", full, ("second", "fill_value")), ("arange", arange, ("start", "stop", "step"))


#: PyTorch's other names of functions.
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "neg": "negative",
    "movedim": "moveaxis",
    "swapdims": "swapaxes",
    "take_along_dim": "take_along_axis",
    "add": "add",
}


def functional_batch_norm(builtins: _Table) -> Builtin:
    """Return ``F.batch_norm``, whose four vectors are in PyTorch's order."""
    return replace(builtins["batch_norm"], apply=_with(builtins, _batch_norm))


def permuting(builtins: _Table) -> Builtin:
    """Return the method ``transpose`` of NumPy and of PyTorch."""
    return replace(builtins["transpose"], signature="a *axes", apply=_with(builtins, _transpose))


#: PyTorch's ``x.size()``, which is called; NumPy's is a number.
SIZE = Builtin("size", "a dim?", _size, "Return the shape, or the size of a dimension.", aliases=_DATA)
