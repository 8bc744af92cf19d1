"""Describe the names of the language for completion, inspection and the reference.

The descriptions come from the declarations of Relay's operators, the language's functions and its dtypes.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np

from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.declaration import NONE_GIVEN, Operator
from nnmagic.relay.types import Int64
from nnmagic.tinynn.builtins import BUILTINS, CONSTANTS, IN_PLACE, METHODS, MODULES
from nnmagic.tinynn.calls.argument_binding import Builtin
from nnmagic.tinynn.namespace.attributes import ATTRIBUTES
from nnmagic.tinynn.namespace.unsupported_names import language_name
from nnmagic.tinynn.operators.iteration import ITERATION
from nnmagic.tinynn.types.annotations import DTYPES, DType
from nnmagic.tinynn.values.values import BuiltinName, Known, OperatorName

#: Python's keywords that a cell supports.
KEYWORDS = (
    *("and", "assert", "break", "case", "class", "continue", "def", "elif", "else", "False", "for", "if"),
    *("in", "is", "lambda", "match", "None", "not", "or", "pass", "return", "True", "while"),
)
#: Names of types in annotations, apart from dtypes.
TYPE_NAMES = {
    "Tensor": "Tensor[(2, 3), f32]: a tensor's shape and dtype.",
    "tuple": "tuple[A, B]: several values.",
    "Callable": "Callable[[A], B]: a function.",
    "InOut": "InOut[Tensor[(3,), f32]]: an array of the caller that the function reads and changes.",
    "Out": "Out[Tensor[(3,), f32]]: an array of the caller that the function fills.",
}


@dataclass(frozen=True, slots=True)
class Symbol:
    """Description of one name.

    kind: ``"operator"``, ``"function"``, ``"method"``, ``"attribute"``, ``"dtype"``, ``"type"``,
    ``"constant"``, or ``"function of this cell"`` and the like. parameters: as Python would write them, with
    ``*`` before the keyword-only ones; None if the name is not callable. relay, numpy: the equivalents there.
    details: the accepted values of the parameters. result, source: the type of the result, and the source
    text, of a name that a cell defines.
    """

    name: str
    kind: str
    summary: str
    parameters: tuple[str, ...] | None = None
    relay: str | None = None
    numpy: str | None = None
    details: tuple[str, ...] = ()
    result: str | None = None
    source: str | None = None

    @property
    def signature(self) -> str:
        """Return the name with its parameters."""
        return self.name if self.parameters is None else f"{self.name}({', '.join(self.parameters)})"

    @property
    def keywords(self) -> tuple[str, ...]:
        """Return the names of its parameters."""
        names = (part.partition("=")[0].lstrip("*") for part in self.parameters or ())
        return tuple(name for name in names if name)


def operator_signature(operator: Operator) -> list[str]:
    """Return the parameters of an operator's call, with the defaults of optional ones."""
    shown = {
        name: f"{name}={operator.arg_defaults[name]!r}" if name in operator.arg_defaults else name
        for name in operator.args
    }
    for attr in operator.attrs:
        default = attr.default_in_call
        if isinstance(default, Int64):
            default = int(default)
        shown[attr.name] = attr.name if default is NONE_GIVEN else f"{attr.name}={default!r}"
    return [shown.get(name, name) for name in operator.call_order or shown]


def operator_symbol(operator: Operator) -> Symbol:
    """Describe an operator."""
    what = "a list of tensors" if operator.variadic else "a tensor"
    tensors = tuple(f"{name}: {what}" for name in operator.args)
    details = (*tensors, *(f"{attr.name}: {attr.kind.words}" for attr in operator.attrs))
    return Symbol(
        operator.name,
        "operator",
        operator.summary,
        tuple(operator_signature(operator)),
        operator.name,
        operator.numpy,
        details,
    )


def function_symbol(builtin: Builtin, *, method: bool = False) -> Symbol:
    """Describe a function of the language, or its method of tensors."""
    parts = (builtin.form or builtin.signature).split()[1 if method else 0 :]
    twin = OPERATORS.get(builtin.name) or OPERATORS.get(f"nn.{builtin.name}")
    defaults = {**_COMMON_DEFAULTS, **_relay_defaults(twin), **_defaults(builtin.numpy)}
    shown = []
    for text in parts:
        name, optional, default = text.partition("?")
        shown.append(f"{name}={default[1:] or defaults.get(name, 'None')}" if optional else name)
    if any(len(name) > 1 and name.startswith("*") for name in shown):
        shown = [name for name in shown if name != "*"]  # `*args` already makes the rest keyword-only
    names = [text.partition("?")[0].strip("*") for text in parts]
    details = tuple(f"{name}: {_PARAMETER_KINDS[name]}" for name in names if name in _PARAMETER_KINDS)
    return Symbol(
        builtin.name,
        "method" if method else "function",
        builtin.summary,
        tuple(shown),
        twin.name if twin else None,
        f"numpy.{builtin.numpy.removeprefix('numpy.')}" if builtin.numpy else None,
        details,
    )


#: Defaults of parameters in all functions.
_COMMON_DEFAULTS = {
    **dict.fromkeys(("keepdims", "exclude", "exclusive", "select_last_index", "training"), "False"),
    **dict.fromkeys(("is_ascend", "center", "scale", "count_include_pad"), "True"),
    **dict.fromkeys(("eps", "epsilon"), "1e-05"),
    "reduction": "'mean'",
}
#: Accepted values of parameters, by the parameter's name.
_PARAMETER_KINDS = {
    **dict.fromkeys(("a", "b", "x", "x1", "x2", "data", "ary", "arr"), "a tensor"),
    **dict.fromkeys(("arrays", "tensors"), "tensors, or a list of them"),
    **dict.fromkeys(("weight", "bias", "gamma", "beta"), "a tensor"),
    **dict.fromkeys(("keepdims", "exclude", "copy", "endpoint", "ceil_mode", "equal_nan"), "True or False"),
    **dict.fromkeys(("axis", "axes"), "an int, or a tuple of ints"),
    **dict.fromkeys(("dtype", "out_dtype"), "a dtype, as in f32"),
    **dict.fromkeys(("shape", "newshape"), "ints and sizes of tensors, in a tuple"),
    **dict.fromkeys(("strides", "padding", "dilation", "kernel_size", "pool_size"), "an int, or one an axis"),
    **dict.fromkeys(("k", "N", "M", "num", "groups", "ddof", "decimals", "repeats"), "an int"),
    **dict.fromkeys(("eps", "epsilon", "rtol", "atol", "momentum", "alpha"), "a number"),
    "reduction": "'mean', 'sum' or 'none'",
    "layout": "the order of the axes, as in 'NCHW'",
    "where": "a tensor of bools",
    "condition": "a tensor of bools",
    "indices": "a tensor of ints",
}


@cache
def _defaults(twin: str | None) -> Mapping[str, str]:
    """Return the defaults of a NumPy function as far as they are plain values."""
    function: object = np
    for part in (twin or "").removeprefix("numpy.").split("."):
        function = getattr(function, part, None)
    if twin is None or not callable(function):
        return {}
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some of NumPy's C functions have no signature
        return {}
    plain = (bool, int, float, str, tuple, type(None))
    return {
        parameter.name: repr(parameter.default)
        for parameter in parameters
        if isinstance(parameter.default, plain)
    }


def _relay_defaults(twin: Operator | None) -> Mapping[str, str]:
    """Return the defaults of an operator's attributes."""
    parts = [] if twin is None else operator_signature(twin)
    return {name: default for name, given, default in (part.partition("=") for part in parts) if given}


@cache
def symbols() -> Mapping[str, Symbol]:
    """Return every name without a dot that the language defines."""
    result = {name: operator_symbol(operator) for name, operator in OPERATORS.items() if "." not in name}
    result |= {
        name: function_symbol(builtin)
        for name, builtin in {**ITERATION, **BUILTINS}.items()
        if not builtin.is_refused
    }
    result |= {name: _constant_symbol(name, value) for name, value in CONSTANTS.items()}
    result |= {name: Symbol(name, "dtype", f"The dtype {dtype.name}.") for name, dtype in DTYPES.items()}
    result |= {name: Symbol(name, "type", summary) for name, summary in TYPE_NAMES.items()}
    return result


@cache
def namespaces() -> Mapping[str, Mapping[str, Symbol]]:
    """Return the operators with dotted names, by their prefix."""
    result: dict[str, dict[str, Symbol]] = {}
    for name, operator in OPERATORS.items():
        space, _, last = name.rpartition(".")
        result.setdefault(space, {})[last] = operator_symbol(operator)
    result["relay"] = result.pop("")
    return result


@cache
def members() -> Mapping[str, Symbol]:
    """Return the attributes and methods of tensors, including operators that are methods."""
    result = {name: Symbol(name, "attribute", summary) for name, summary in ATTRIBUTES.items()}
    result |= {
        name: function_symbol(builtin, method=True)
        for name, builtin in METHODS.items()
        if not builtin.is_refused
    }
    for name, operator in OPERATORS.items():
        space, _, last = name.rpartition(".")
        if space in ("", "nn") and operator.args and not operator.variadic and last not in IN_PLACE:
            result.setdefault(last, operator_symbol(operator))
    return result


def module_symbols(module: str) -> Mapping[str, Symbol]:
    """Return the names of a Python module that a cell can use; none for an unknown module."""
    result = {
        name: function_symbol(builtin)
        for name, builtin in MODULES.get(module, {}).items()
        if not builtin.is_refused
    }
    if module in ("numpy", "jax.numpy"):
        result |= {name: _constant_symbol(name, value) for name, value in CONSTANTS.items()}
    return result


def meaning(path: tuple[str, ...], namespace: Mapping[str, object]) -> Symbol | None:
    """Describe a dotted name of the language; None for names of the notebook or the cell."""
    value = namespace.get(path[0])
    if isinstance(value, ModuleType) and value.__name__ not in ("nnmagic", "nnmagic.relay"):
        for part in path[1:-1]:
            value = vars(value).get(part) if isinstance(value, ModuleType) else None
        available = module_symbols(value.__name__) if isinstance(value, ModuleType) and len(path) > 1 else {}
        if path[-1] in available:
            return available[path[-1]]
        return _language_symbol(path) if len(path) > 1 else None
    if path[0] in namespace and not isinstance(value, ModuleType):
        return members().get(path[-1]) if len(path) > 1 else None
    if len(path) == 1 and path[0] in symbols():
        return symbols()[path[0]]
    return _language_symbol(path) or (members().get(path[-1]) if len(path) > 1 else None)


def _language_symbol(path: tuple[str, ...]) -> Symbol | None:
    """Describe a name of the language as it is written."""
    resolved = language_name(path)
    if resolved is None or resolved[1] != len(path):
        return None
    match resolved[0]:
        case OperatorName(operator=operator):
            return operator_symbol(operator)
        case BuiltinName(builtin=Builtin() as builtin):
            return function_symbol(builtin)
        case Known(value=value) if isinstance(value, DType | float | None):
            return _constant_symbol(path[-1], value)
    return None


def _constant_symbol(name: str, value: DType | float | None) -> Symbol:
    if isinstance(value, DType):
        return Symbol(name, "dtype", f"The dtype {value.name}.")
    return Symbol(
        name, "constant", f"The constant {value}." if value is not None else "A new dimension of size 1."
    )
