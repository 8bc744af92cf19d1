"""Bind arguments to parameters: positional, by keyword, with defaults; define builtin functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnmagic.diagnostics import Span, closest
from nnmagic.relay.types import TensorType
from nnmagic.tinynn.calls.complex_functions import TAKING_COMPLEX
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.complex_support import holds_complex, refusal
from nnmagic.tinynn.values.default_dtypes import inherit_default_dtype, with_default_dtype
from nnmagic.tinynn.values.descriptions import describe, source_text
from nnmagic.tinynn.values.operator_calls import is_tensor, tensor_type
from nnmagic.tinynn.values.promotion import floats_meet
from nnmagic.tinynn.values.weak_types import as_weak, is_weak


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call by parameter name; those left out are not there."""

    name: str
    given: Mapping[str, v.Operand]
    span: Span

    def __contains__(self, parameter: str) -> bool:
        operand = self.given.get(parameter)
        return operand is not None and operand.value != v.Known(None)

    def at(self, parameter: str) -> Span:
        """Return where an argument is written."""
        return self.given[parameter].span

    def refusal(self, parameter: str, message: str, hint: str | None = None) -> v.RefusalError:
        """Return the error of an argument; the function's name is put in front of the message."""
        return v.RefusalError(f"{self.name}: {message}", self.at(parameter), hint=hint)

    def mismatch(self, parameter: str, wanted: str, hint: str | None = None) -> v.RefusalError:
        """Return the error of an argument that is of another kind than what is wanted."""
        message = f"`{parameter}` must be {wanted}, not {describe(self.given[parameter].value)}"
        return self.refusal(parameter, message, hint)

    def items(self, parameter: str) -> list[v.Operand]:
        """Return the arguments of a parameter that takes any number of them, or the items of a tuple."""
        operand = self.given[parameter]
        assert isinstance(operand.value, v.TupleOf)
        return [v.Operand(item, operand.span) for item in operand.value.items]

    def tensor(self, parameter: str) -> v.Computed:
        """Return an argument that must be one tensor. Raises RefusalError."""
        operand = self.given[parameter]
        tensor_type(operand)
        return operand.dynamic

    def type(self, parameter: str) -> TensorType:
        """Return the type of an argument that must be one tensor. Raises RefusalError."""
        return tensor_type(self.given[parameter])

    def static(self, parameter: str, default: object = None) -> object:
        """Return an argument that must be known at compile time. Raises RefusalError."""
        operand = self.given.get(parameter)
        return default if operand is None else static_argument(self.name, parameter, operand)

    def attrs(self, *parameters: str) -> dict[str, object]:
        """Return those of the parameters that were given, as attributes. Raises RefusalError."""
        return {name: self.static(name) for name in parameters if name in self.given}


def static_argument(function: str, parameter: str, operand: v.Operand) -> object:
    """Return the value of an argument that must be known at compile time. Raises RefusalError."""
    try:
        return v.static_value(operand.value)
    except v.NotStaticError:
        if isinstance(operand.value, v.TupleOf):
            for item in operand.value.items:
                static_argument(function, parameter, v.Operand(item, operand.span))
        hint = None
        if is_tensor(operand.value):
            hint = "it may be a number, a string, a tuple of them, or a name of the notebook that holds one"
            if not tensor_type(operand).shape:
                hint += "; a parameter without a type may be a number that each call gives"
        raise v.RefusalError(
            f"{function}: `{parameter}` must be known at compile time, not {describe(operand.value)}",
            operand.span,
            hint=hint,
        ) from None


#: Functions that make a tensor of a Python number.
_MAKING_TENSORS = ("array", "asarray", "astype")

#: Functions whose last arguments may be tuples, each of them one argument.
_TAKING_TREES = ("vjp", "tree_map", "map", "chain", "product")


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of the language that is not one operator.

    ``signature``: parameter names separated by blanks, with ``?`` those that may be left out, and after it
    ``=`` and the default, where neither the twins nor usage say it; after ``*`` by keyword only; the last may
    be ``*name``: all further positional arguments, as a tuple. ``form``: the signature to show, where names
    in it stand for several. ``aliases``: other
    names that a keyword may have, each as ``dim=axis``; ``data``, which Relay calls the first parameter, is
    one everywhere. ``numpy``: the name of the twin in NumPy, if there is one. ``method``: whether tensors
    have it as a method, too.
    """

    name: str
    signature: str
    apply: Callable[[Arguments], v.Value]
    summary: str
    numpy: str | None = None
    aliases: str = ""
    method: bool = True
    form: str = ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters, in order."""
        return tuple(map(_name, self.signature.replace(" * ", " ").split()))

    @property
    def is_refused(self) -> bool:
        """Return whether the function exists only to explain why it is not supported."""
        return self.summary.startswith("Refused")

    def call(self, operands: Sequence[v.Operand], span: Span) -> v.Value:
        """Bind the arguments and apply the function. Raises RefusalError."""
        if self.is_refused:
            return self.apply(Arguments(self.name, {}, span))
        if self.name not in _KEEPING_DTYPES:
            operands = floats_meet(operands)
        before, _, after = self.signature.partition(" * ")
        positional, by_keyword = before.split(), after.split()
        starred = positional.pop()[1:] if positional and positional[-1].startswith("*") else None
        required = [word for word in positional if "?" not in word]
        if starred is not None:
            operands = _gather(operands, len(positional), starred, whole=self.name in _TAKING_TREES)
            positional.append(starred)
        names = [_name(word) for word in (*positional, *by_keyword)]
        bound = bind(self.name, names, required, operands, span, self._aliases_of(names), len(positional))
        for parameter in required:
            if bound[parameter].value == v.Known(None):
                raise v.RefusalError(f"{self.name}: `{parameter}` must not be None", bound[parameter].span)
        if starred is not None:
            gathered = bound.get(starred, v.Operand(v.TupleOf(()), span))
            if not isinstance(gathered.value, v.TupleOf):
                gathered = v.Operand(v.TupleOf((gathered.value,)), gathered.span)
            bound[starred] = gathered
        if self.name not in TAKING_COMPLEX:
            self._refuse_complex(bound)
        result = self.apply(Arguments(self.name, bound, span))
        result = self._with_default_dtype(result, bound, span)
        return as_weak(result) if self._of_numbers(bound) else result

    def _refuse_complex(self, given: Mapping[str, v.Operand]) -> None:
        """Raise RefusalError for an argument that is complex, or holds a complex number."""
        for operand in given.values():
            if holds_complex(operand.value):
                message, hint = refusal(self.name, self.name)
                raise v.RefusalError(
                    message, operand.span, hint=hint.replace("{0}", source_text(operand.span))
                )

    def _with_default_dtype(self, result: v.Value, given: Mapping[str, v.Operand], span: Span) -> v.Value:
        """Return the result, which has a default dtype if it is made without one, or of such arrays."""
        if given.get("dtype", _NONE).value != v.Known(None):
            return result
        values = [operand.value for operand in given.values()]
        parts = (field for value in values for field in v.parts_of(value))
        if self.name in CREATORS and not any(
            isinstance(field, v.Computed) and not field.weak for field in parts
        ):
            return with_default_dtype(result, span)
        return inherit_default_dtype(result, values)

    def _of_numbers(self, given: Mapping[str, v.Operand]) -> bool:
        """Return whether the arguments are Python numbers alone, at least one of them weak."""
        values = [operand.value for operand in given.values()]
        numbers = all(
            is_weak(value) or isinstance(value, v.Known) or value == v.TupleOf(()) for value in values
        )
        return numbers and any(map(is_weak, values)) and self.name not in _MAKING_TENSORS

    def _aliases_of(self, names: Sequence[str]) -> dict[str, str]:
        others = dict(pair.split("=") for pair in self.aliases.split())
        if names and "data" not in names:
            others.setdefault("data", names[0])
        if self.name not in _DIM_IS_DIFFERENT:
            others |= {
                torch: own
                for torch, own in (("dim", "axis"), ("keepdim", "keepdims"))
                if own in names and torch not in names
            }
        return others


def numpy_function(
    name: str, signature: str, apply: Callable[[Arguments], v.Value], summary: str, aliases: str = ""
) -> Builtin:
    """Return a function that NumPy has by the same name, and tensors as a method."""
    return Builtin(name, signature, apply, summary, name, aliases)


def free_function(
    name: str,
    signature: str,
    apply: Callable[[Arguments], v.Value],
    summary: str,
    aliases: str = "",
    form: str = "",
) -> Builtin:
    """Return a function that NumPy has by the same name, and tensors not as a method."""
    return Builtin(name, signature, apply, summary, name, aliases, method=False, form=form)


def cell_function(
    name: str,
    signature: str,
    apply: Callable[[Arguments], v.Value],
    summary: str,
    aliases: str = "",
    form: str = "",
) -> Builtin:
    """Return a function that NumPy does not have by the same name, nor tensors as a method."""
    return Builtin(name, signature, apply, summary, None, aliases, method=False, form=form)


#: Functions that mean something else in PyTorch along a dimension: it gives indices, too, or another number.
_DIM_IS_DIFFERENT = frozenset(
    {"max", "min", "sort", "median", "nanmedian", "std", "var", "variance", "split", "array_split", "repeat"}
)

#: The functions that make arrays of a default dtype of numbers and sizes.
CREATORS = frozenset({"zeros", "ones", "empty", "full", "array", "asarray", "arange", "eye", "identity"})
CREATORS |= {"tri", "linspace", "logspace", "geomspace"}

#: The functions whose arguments keep their dtypes: the result has that of the first, or of each.
_KEEPING_DTYPES = frozenset(
    {"full_like", "type_as", "insert", "setdiff1d", "meshgrid", "broadcast_arrays", "pad"}
)
_KEEPING_DTYPES |= {
    "sum",
    "prod",
    "max",
    "amax",
    "min",
    "amin",
    "histogram",
    "histogram2d",
    "histogramdd",
    "bincount",
}

_NONE = v.Operand(v.Known(None), Span("", 1, 1, 1, 1))


def _name(word: str) -> str:
    """Return the parameter that a word of a signature names."""
    return word.partition("=")[0].strip("?*")


def _gather(operands: Sequence[v.Operand], fixed: int, rest: str, *, whole: bool) -> list[v.Operand]:
    """Gather the positional arguments after the first ``fixed`` into a tuple.

    One tuple stands for itself, unless it is ``whole``.
    """
    positional = [operand for operand in operands if operand.keyword is None]
    named = [operand for operand in operands if operand.keyword is not None]
    extra = positional[fixed:]
    if not extra or (len(extra) == 1 and not whole and isinstance(extra[0].value, v.TupleOf)):
        return [*positional, *named]
    gathered = v.TupleOf(tuple(operand.value for operand in extra))
    span = extra[0].span.to(extra[-1].span)
    return [*positional[:fixed], v.Operand(gathered, span, rest), *named]


def bind(
    function: str,
    parameters: Sequence[str],
    required: Sequence[str],
    operands: Sequence[v.Operand],
    span: Span,
    renamed: Mapping[str, str] | None = None,
    most_positional: int | None = None,
) -> dict[str, v.Operand]:
    """Return arguments by parameter name. Raises RefusalError.

    ``renamed``: other names that a keyword may have. ``most_positional``: how many parameters may be given by
    position; all by default.
    """
    positional = [operand for operand in operands if operand.keyword is None]
    most = len(parameters) if most_positional is None else most_positional
    if len(positional) > most:
        takes = f"{most} argument{'' if most == 1 else 's'}"
        listed = f" ({', '.join(parameters[:most])})" if most else ""
        message = f"{function} takes {takes}{listed}, but {len(positional)} are given"
        hint = f"by keyword: {', '.join(parameters[most:])}" if most < len(parameters) else None
        if most and parameters[most - 1] in ("shape", "newshape", "axes", "reps"):
            before = ", ".join([*parameters[: most - 1], "(2, 3)"])
            hint = f"put the numbers in brackets, as in {function}({before})"
        raise v.RefusalError(message, positional[most].span, hint=hint)
    arguments = dict(zip(parameters, positional, strict=False))
    for operand in operands[len(positional) :]:
        keyword = operand.keyword
        assert keyword is not None
        name = (renamed or {}).get(keyword, keyword)
        if name not in parameters:
            raise _unknown_keyword(function, keyword, parameters, operand, renamed or {})
        if name in arguments:
            raise v.RefusalError(f"{function}: `{keyword}` is given twice", operand.span)
        arguments[name] = operand
    missing = [name for name in required if name not in arguments]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        names = ", ".join(f"`{name}`" for name in missing)
        raise v.RefusalError(
            f"{function}: missing argument{plural} {names}", span, hint=_signature(function, parameters)
        )
    return arguments


#: What other libraries call a parameter.
_OTHER_KEYWORDS = {"dim": "axis", "dims": "axis", "keepdim": "keepdims", "axes": "axis", "stride": "strides"}

#: Parameters of NumPy's functions that mean nothing where tensors do not change.
_NEVER_KEYWORDS = {
    "out": "a call with out= is a statement of its own: write it on a line before",
    "order": "the order of elements in memory is not part of a tensor: leave it out",
    "subok": "leave it out",
    "casting": "leave it out, and convert with astype",
    "inplace": "tensors do not change: give the result a name, as in y = ...",
}


def _unknown_keyword(
    function: str, keyword: str, parameters: Sequence[str], operand: v.Operand, renamed: Mapping[str, str]
) -> v.RefusalError:
    if keyword in _NEVER_KEYWORDS:
        message = f"{function} has no parameter `{keyword}`"
        raise v.RefusalError(message, operand.span, hint=_NEVER_KEYWORDS[keyword])
    other = _OTHER_KEYWORDS.get(keyword)
    close = other if other in parameters else closest(keyword, [*parameters, *renamed])
    hint = f"did you mean `{close}`?" if close else _signature(function, parameters)
    return v.RefusalError(f"{function} has no parameter `{keyword}`", operand.span, hint=hint)


def _signature(function: str, parameters: Sequence[str]) -> str:
    return f"it is called as {function}({', '.join(parameters)})"
