"""Define the functions and methods that PyTorch and NumPy both have, with different meanings.

A cell takes them as PyTorch does where it is written ``torch.name``, and in the source of an ``nn.Module``.

Their reference: https://docs.pytorch.org/docs/stable/torch.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from nnmagic.tinynn.builtins.argument_checks import flag, formula, one_axis, static_int, static_size
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.operator_calls import is_tensor
from nnmagic.tinynn.values.values import Known, Operand, RefusalError, TupleOf, Value

_Table = Mapping[str, Builtin]
#: What PyTorch calls the results of functions that also say where the elements are.
RESULTS = ("values", "indices")

#: Keywords that PyTorch's methods alone have: with one of them a method has its meaning.
TORCH_KEYWORDS = frozenset({"dim", "keepdim", "descending"})

_NAMES = "input=a self=a x=a dim=axis keepdim=keepdims"

#: Whether what is elaborated is the source of an ``nn.Module``.
_IN_MODULE: ContextVar[bool] = ContextVar("in_module", default=False)


@contextmanager
def source_of_module() -> Iterator[None]:
    """Take methods of tensors as PyTorch does, in what is elaborated inside."""
    token = _IN_MODULE.set(True)
    try:
        yield
    finally:
        _IN_MODULE.reset(token)


def is_source_of_module() -> bool:
    """Return whether methods of tensors are PyTorch's."""
    return _IN_MODULE.get()


def _moment(own: Builtin) -> Callable[[Arguments], Value]:
    """Divide by one less than the number of elements, unless a keyword says otherwise."""

    def apply_to(call: Arguments) -> Value:
        arguments = dict(call.given)
        unbiased = flag(call, "unbiased", default=True)
        arguments.pop("unbiased", None)
        arguments.setdefault("correction", Operand(Known(int(unbiased)), call.span))
        return own.apply(Arguments(call.name, arguments, call.span))

    return apply_to


def _extreme(builtins: _Table, name: str) -> Callable[[Arguments], Value]:
    """Return the extreme element, of two tensors the extreme elements, or (values, indices) along an axis."""

    def apply_to(call: Arguments) -> Value:
        data, arguments = call.given["a"], dict(call.given)
        axis = arguments.get("axis")
        if axis is not None and is_tensor(axis.value) and formula(call, "axis").rank:
            return builtins[f"{name}imum"].call([data, axis], call.span)
        del arguments["a"]
        operands = [data, *(replace(operand, keyword=key) for key, operand in arguments.items())]
        values = builtins[f"a{name}"].call(operands, call.span)
        if axis is None:
            return values
        return TupleOf((values, builtins[f"arg{name}"].call(operands, call.span)), names=RESULTS)

    return apply_to


def _sort(call: Arguments) -> Value:
    data = formula(call, "a")
    axis = one_axis(call, "axis", data.rank, -1)
    ascending = not flag(call, "descending")
    order = data.op("argsort", axis=axis, is_ascend=ascending, dtype="int64")
    return TupleOf((data.op("sort", axis=axis, is_ascend=ascending).value, order.value), names=RESULTS)


def _split(builtins: _Table) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        axis = one_axis(call, "axis", data.rank, 0)
        total = static_size(call, data.shape[axis], call.at("a"))
        sizes = call.static("size")
        if not isinstance(sizes, tuple):
            size = static_int(call, "size")
            if size < 1:
                raise RefusalError(f"split: the size {size} is not positive", call.at("size"))
            sizes = (size,) * (total // size) + ((total % size,) if total % size else ())
        if not all(isinstance(size, int) for size in sizes) or sum(sizes) != total:
            raise RefusalError(f"split: the sizes {sizes} do not add up to {total}", call.at("size"))
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes) - 1)]
        places = Operand(TupleOf(tuple(map(Known, ends))), call.at("size"))
        given = {"ary": call.given["a"], "indices_or_sections": places}
        given["axis"] = Operand(Known(axis), call.span)
        return builtins["split"].apply(Arguments("split", given, call.span))

    return apply_to


def _repeat(builtins: _Table) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        operands = (Operand(each.value, each.span) for each in (call.given["a"], call.given["sizes"]))
        return builtins["tile"].call(list(operands), call.span)

    return apply_to


def _nonzero(call: Arguments) -> Value:
    return formula(call, "a").op("argwhere").cast("int64").value


def _median(call: Arguments) -> Value:
    """Return the lower of the two in the middle, and along an axis its index, too; NaN if there is one."""
    given = formula(call, "a")
    data = given if "axis" in call else given.flat()
    axis = one_axis(call, "axis", data.rank, 0)
    size = static_size(call, data.shape[axis], call.at("a"))
    if not size:
        raise RefusalError("median: there are no elements", call.span)
    order = data.op("argsort", axis=axis, is_ascend=True, dtype="int64")
    place = (size - 1) // 2
    index = order.between(axis, place, place + 1)
    if data.is_float:
        unknown = data.op("isnan")
        first = unknown.cast("int64").op("argmax", axis=[axis], keepdims=True).cast("int64")
        index = unknown.reduce("any", (axis,), keepdims=True).choose(first, index)
    values = data.op("gather", index, axis=axis)
    parts = (
        (values, index)
        if flag(call, "keepdims")
        else (item.op("squeeze", axis=[axis]) for item in (values, index))
    )
    found = tuple(item.value for item in parts)
    return TupleOf(found, names=RESULTS) if "axis" in call else found[0]


def torch_meanings(builtins: _Table) -> dict[str, Builtin]:
    """Return what PyTorch means by names that NumPy has, too."""

    def row(name: str, signature: str, apply_to: Callable[[Arguments], Value], summary: str) -> Builtin:
        return Builtin(name, signature, apply_to, summary, aliases=f"{_NAMES} split_size=size other=axis")

    moment = "a axis? unbiased? * correction? keepdims?"
    return {
        "std": row("std", moment, _moment(builtins["std"]), "Compute the deviation; n - 1 is the divisor."),
        "var": row("var", moment, _moment(builtins["var"]), "Compute the variance; n - 1 is the divisor."),
        **{
            name: row(
                name,
                "a axis? keepdims?",
                _extreme(builtins, name),
                f"Return the {name}, or values and indices.",
            )
            for name in ("max", "min")
        },
        "sort": row("sort", "a axis? descending? * stable?", _sort, "Return (values, indices) in order."),
        "split": row("split", "a size axis?", _split(builtins), "Split into parts of a size, or of sizes."),
        "repeat": row("repeat", "a *sizes", _repeat(builtins), "Repeat along every axis."),
        "nonzero": row("nonzero", "a", _nonzero, "Return the indices of nonzero elements as rows."),
        "median": row(
            "median", "a axis? keepdims?", _median, "Return the lower median, or values and indices."
        ),
    }


def torch_padding(builtins: _Table) -> Builtin:
    """Return ``F.pad``, whose widths are those of the last axis first."""
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}

    def apply_to(call: Arguments) -> Value:
        data, widths = formula(call, "a"), call.static("pad")
        ints = isinstance(widths, tuple) and all(isinstance(width, int) for width in widths)
        if not isinstance(widths, tuple) or not ints or len(widths) % 2 or len(widths) > 2 * data.rank:
            message = "pad: `pad` must be two numbers for each of the last axes, the last one first"
            raise RefusalError(message, call.at("pad"))
        mode = call.static("mode") if "mode" in call else "constant"
        if mode not in modes:
            raise RefusalError(f"pad: `mode` must be one of {', '.join(modes)}", call.at("mode"))
        pairs = [(widths[at], widths[at + 1]) for at in range(0, len(widths), 2)]
        if any(width < 0 for width in widths):
            raise RefusalError("pad: a width is negative", call.at("pad"))
        whole = [(0, 0)] * (data.rank - len(pairs)) + pairs[::-1]
        width = TupleOf(tuple(TupleOf(tuple(map(Known, pair))) for pair in whole))
        operands = [call.given["a"], Operand(width, call.at("pad"))]
        operands.append(Operand(Known(modes[str(mode)]), call.span))
        if mode == "constant" and "value" in call:
            operands.append(Operand(call.given["value"].value, call.at("value"), "constant_values"))
        return builtins["pad"].call(operands, call.span)

    summary = "Pad the last axes by pairs of widths, the last axis first."
    return Builtin("pad", "a pad mode? value?", apply_to, summary, aliases="input=a")


def _declare_addition(product: str) -> Callable[[_Table], Builtin]:
    """Declare ``beta * a + alpha * (m1 @ m2)``."""

    def declare(builtins: _Table) -> Builtin:
        def apply_to(call: Arguments) -> Value:
            factors = [call.given["m1"], call.given["m2"]]
            result = Formula(builtins["matmul"].call(factors, call.span), call.span)  # type: ignore[arg-type]
            scaled = formula(call, "a")
            for name in ("alpha", "beta"):
                if name in call:
                    scale = formula(call, name).cast(scaled.dtype)
                    result, scaled = (result * scale, scaled) if name == "alpha" else (result, scaled * scale)
            return (scaled + result).value

        aliases = "input=a mat1=m1 mat2=m2 batch1=m1 batch2=m2"
        return Builtin(
            product, "a m1 m2 * beta? alpha?", apply_to, "Add a product of matrices.", aliases=aliases
        )

    return declare


#: Functions of PyTorch alone, by name.
TORCH_PRODUCTS = {name: _declare_addition(name) for name in ("addmm", "baddbmm")}
