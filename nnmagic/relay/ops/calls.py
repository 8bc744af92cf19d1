"""Call operators as Relay's Python functions do: by short names, with their defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nnmagic.diagnostics import Span
from nnmagic.relay.expr import Call, Expr, OpRef, constant
from nnmagic.relay.ops.declaration import OPERATORS, Operator, RelationError


def resolve(name: str) -> Operator | None:
    """Return the operator that a name means.

    ``nn.relu`` and ``add`` name themselves; ``relu`` is the last component of one operator only, not counting
    its twin for quantized numbers. None if there is no such operator, or several.
    """
    if name in OPERATORS:
        return OPERATORS[name]
    matches = _by_last_component().get(name, [])
    if len(matches) > 1:
        matches = [operator for operator in matches if not operator.name.startswith("qnn.")]
    return matches[0] if len(matches) == 1 else None


def call(name: str, args: Sequence[Expr], span: Span | None = None, **attrs: object) -> Call:
    """Return a call of an operator with complete attributes, as Relay's Python function makes it.

    ``args`` are the operator's arguments in order; those at the end that have a number as default may be left
    out. ``attrs`` may have the names of Relay's Python function. Raises KeyError for an unknown operator and
    RelationError for wrong attributes.
    """
    operator = OPERATORS[name]
    complete, arguments = list(args), {operator.keywords.get(key, key): value for key, value in attrs.items()}
    if name in _PREPARE:
        complete, arguments = _PREPARE[name](complete, arguments)
    for argument in operator.args[len(complete) :]:
        if argument not in operator.arg_defaults:
            raise RelationError(f"{name} needs the argument {argument!r}")
        complete.append(constant(operator.arg_defaults[argument], span=span))
    return Call(
        OpRef(name, span=span), tuple(complete), operator.complete_attrs(arguments, from_call=True), span=span
    )


# --- what single Python functions do beyond filling in defaults ---------------------------------------------

_Prepared = tuple[list[Expr], dict[str, object]]


def _arange(args: list[Expr], attrs: dict[str, object]) -> _Prepared:
    """Complete ``arange(stop)``, which starts at 0 and steps by 1; the attributes repeat the arguments."""
    dtype = _dtype(attrs, "dtype")
    if not 1 <= len(args) <= 3:
        raise RelationError(f"arange takes 1 to 3 arguments (start, stop, step), got {len(args)}")
    if len(args) == 1:
        args = [constant(0, dtype), *args]
    if len(args) == 2:
        args = [*args, constant(1, dtype)]
    return args, {**attrs, **dict(zip(("start", "stop", "step"), args, strict=True))}


def _distribution(low: float, high: float) -> Callable[[list[Expr], dict[str, object]], _Prepared]:
    """Give the parameters of a distribution the dtype of its numbers."""

    def prepare(args: list[Expr], attrs: dict[str, object]) -> _Prepared:
        dtype = _dtype(attrs, "out_dtype")
        missing = (low, high)[len(args) - 1 :] if args else ()
        return [*args, *(constant(value, dtype) for value in missing)], attrs

    return prepare


def _variance(args: list[Expr], attrs: dict[str, object]) -> _Prepared:
    """Take the data's own mean if none is passed."""
    if len(args) == 1:
        axis, exclude = attrs.get("axis"), attrs.get("exclude", False)
        args = [*args, call("mean", args, axis=axis, keepdims=True, exclude=exclude)]
    return args, attrs


def _stft(args: list[Expr], attrs: dict[str, object]) -> _Prepared:
    """Take a window of ones and hops of a quarter of n_fft if none are passed."""
    size = attrs.get("n_fft")
    if isinstance(size, int):
        defaults = {"hop_length": size // 4, "win_length": size}
        attrs = {**attrs, **{key: value for key, value in defaults.items() if attrs.get(key) is None}}
        if len(args) == 1:
            args = [*args, call("ones", [], shape=(size,), dtype="int32")]
    return args, attrs


def _matrix_set_diag(args: list[Expr], attrs: dict[str, object]) -> _Prepared:
    """Split ``k``, one diagonal or the first and last, and ``align``, for those above and those below."""
    attributes = dict(attrs)
    k, align = attributes.pop("k", None), attributes.pop("align", None)
    if k is not None:
        first, last = k if isinstance(k, tuple | list) and len(k) == 2 else (k, k)
        attributes |= {"k1": first, "k2": last}
    if align is not None:
        above, _, below = str(align).partition("_")
        if {above, below} - {"LEFT", "RIGHT"}:
            message = f"matrix_set_diag: align must be such as 'RIGHT_LEFT', not {align!r}"
            raise RelationError(message, attr="align")
        attributes |= {"super_diag_right_align": above == "RIGHT", "sub_diag_right_align": below == "RIGHT"}
    return args, attributes


def _collapse_sum_to(args: list[Expr], attrs: dict[str, object]) -> _Prepared:
    """Pass the shape as an argument as well as an attribute."""
    if len(args) == 1 and "shape" in attrs:
        args = [*args, constant(attrs["shape"], "int32")]
    return args, attrs


def _dtype(attrs: Mapping[str, object], name: str) -> str:
    dtype = attrs.get(name, "float32")
    return str(getattr(dtype, "name", dtype))


_PREPARE: dict[str, Callable[[list[Expr], dict[str, object]], _Prepared]] = {
    "arange": _arange,
    "collapse_sum_to": _collapse_sum_to,
    "matrix_set_diag": _matrix_set_diag,
    "random.normal": _distribution(0.0, 1.0),
    "random.uniform": _distribution(0.0, 1.0),
    "stft": _stft,
    "variance": _variance,
}

# --- names --------------------------------------------------------------------------------------------------

_LAST_COMPONENT: dict[str, list[Operator]] = {}


def _by_last_component() -> dict[str, list[Operator]]:
    if not _LAST_COMPONENT:
        for operator in OPERATORS.values():
            _LAST_COMPONENT.setdefault(operator.name.rpartition(".")[2], []).append(operator)
    return _LAST_COMPONENT
