"""Describe the names of the language for completion, inspection and the reference.

The descriptions come from the declarations of Relay's operators, the language's functions and its dtypes.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType

import numpy as np

from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.declaration import NONE_GIVEN, Operator
from nnmagic.relay.types import Int64
from nnmagic.tinynn.builtins import BUILTINS, CONSTANTS, IN_PLACE, METHODS, MODULES
from nnmagic.tinynn.builtins.generators import GENERATOR_METHODS
from nnmagic.tinynn.builtins.numpy.ufunc_methods import ufunc_method
from nnmagic.tinynn.calls.argument_binding import Builtin
from nnmagic.tinynn.editor import library_symbols as library
from nnmagic.tinynn.namespace.attributes import ATTRIBUTES, CONTAINER_METHODS
from nnmagic.tinynn.namespace.unsupported_functions import IMPORTS
from nnmagic.tinynn.namespace.unsupported_names import language_name
from nnmagic.tinynn.operators.iteration import ITERATION
from nnmagic.tinynn.operators.strings import STRING_METHODS
from nnmagic.tinynn.syntax.in_place_calls import CHANGED_AT
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

#: What loops go over, and what has no value.
_LOOPED_OVER = (
    "range",
    "prange",
    "parallel",
    "grid",
    "zip",
    "enumerate",
    "ndindex",
    "ndenumerate",
    "reversed",
)
_STATEMENTS = ("print", *library.CHANGING_METHODS, *library.NUMPY_NAMES)


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
    def twin(self) -> str:
        """NumPy's function with its parameters; "" if there is none."""
        return library.numpy_signature(self.numpy) if self.numpy else ""

    @property
    def example(self) -> str:
        """A line that uses it: NumPy's own, or a call with the parameters that it needs; "" for others."""
        if self.parameters is None:
            return ""
        if indexed := re.search(rf"`({re.escape(self.name.rpartition('.')[2])}\[.*?)`", self.summary):
            return f"y = {indexed[1]}"
        if self.kind != "method" and self.numpy and (line := library.numpy_example(self.numpy)):
            return line
        names = (parameter.partition(":")[0] for parameter in self.parameters)
        needed = ", ".join(name for name in names if re.fullmatch(r"\**\w+", name))
        call = f"{'x.' if self.kind == 'method' else ''}{self.name}({needed})"
        if self.name in _LOOPED_OVER:
            return f"for i in {call}:"
        return call if self.name in _STATEMENTS else f"y = {call}"

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
    parts = [text.rstrip(",") for text in (builtin.form or builtin.signature).split()[1 if method else 0 :]]
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
    return result | {name: _library_symbol(name, value) for name, value in library.PYTHON_NAMES.items()}


@cache
def namespaces() -> Mapping[str, Mapping[str, Symbol]]:
    """Return the operators with dotted names, by their prefix."""
    result: dict[str, dict[str, Symbol]] = {}
    for name, operator in OPERATORS.items():
        space, _, last = name.rpartition(".")
        result.setdefault(space, {})[last] = operator_symbol(operator)
    result["relay"] = result.pop("")
    for name, builtin in BUILTINS.items():
        space, _, last = name.rpartition(".")
        if space:
            result.setdefault(space, {})[last] = function_symbol(builtin)
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


@cache
def other_members() -> Mapping[str, Symbol]:
    """Return the methods of generators, lists, dictionaries, sets and strings that tensors have not."""
    result = {name: _library_symbol(name, getattr(str, name), "method") for name in sorted(STRING_METHODS)}
    result |= {
        name: _library_symbol(name, value, "method") for name, value in library.CHANGING_METHODS.items()
    }
    result |= {name: function_symbol(row, method=True) for name, row in CONTAINER_METHODS.items()}
    for name, row in GENERATOR_METHODS.items():
        result[name] = function_symbol(row, method=True)
    return {name: symbol for name, symbol in result.items() if name not in members()}


def ufunc_symbols(name: str) -> Mapping[str, Symbol]:
    """Return the methods of a universal function of NumPy: ``outer``, ``reduce``, ``accumulate``, ``at``."""
    if (function := BUILTINS.get(name)) is None:
        return {}
    found = {
        method: ufunc_method(function, CHANGED_AT if method == "at" else method, BUILTINS)
        for method in ("accumulate", "at", "outer", "reduce")
    }
    return {
        method: replace(function_symbol(row), name=f"{name}.{method}")
        for method, row in found.items()
        if row is not None
    }


@cache
def searchable() -> Mapping[str, Symbol]:
    """Return the functions and operators of cells by what is written: those of libraries with a module."""
    found = {name: symbol for name, symbol in symbols().items() if symbol.parameters is not None}
    for space, names in namespaces().items():
        found |= {f"{space}.{name}": symbol for name, symbol in names.items() if space != "relay"}
    usual = {module: name for name, module in {**IMPORTS, "np": "numpy"}.items()}
    for module, rows in MODULES.items():
        space = usual.get(module, module.removeprefix("numpy.").rpartition(".")[2])
        own = {name for name, row in rows.items() if row is not BUILTINS.get(name) and not row.is_refused}
        found |= {
            f"{space}.{name}": replace(symbol, name=f"{space}.{name}")
            for name, symbol in module_symbols(module).items()
            if name in own and f"{space}.{name}" not in found
        }
    return found


@cache
def module_symbols(module: str) -> Mapping[str, Symbol]:
    """Return the names of a Python module that a cell can use; none for an unknown module."""
    result = {
        name: function_symbol(builtin)
        for name, builtin in MODULES.get(module, {}).items()
        if not builtin.is_refused
    }
    if module in ("numpy", "jax.numpy"):
        result |= {name: _constant_symbol(name, value) for name, value in CONSTANTS.items()}
    if module == "numpy":
        result |= {name: _library_symbol(name, value) for name, value in library.NUMPY_NAMES.items()}
    if module == "math":
        numbers = ("e", "inf", "nan", "pi", "tau")
        result |= {name: _constant_symbol(name, getattr(math, name)) for name in numbers}
    if module.startswith("numpy."):
        return {name: replace(symbol, numpy=f"{module}.{name}") for name, symbol in result.items()}
    return result


def module_named(path: tuple[str, ...], namespace: Mapping[str, object]) -> str:
    """Return the module that a dotted name is: of the notebook, or by its usual name; "" for none."""
    if path[0] not in namespace:
        known = ".".join((IMPORTS.get(path[0], path[0]), *path[1:]))
        if known in MODULES or path[0] in namespaces():
            return known
        return next((name for name in MODULES if name.endswith(f".{known}")), "")
    value = namespace[path[0]]
    if not isinstance(value, ModuleType):
        return ""
    whole = ".".join((value.__name__, *path[1:]))
    if whole in MODULES:
        return whole  # which NumPy may not have loaded yet
    for part in path[1:]:
        value = vars(value).get(part) if isinstance(value, ModuleType) else None
    return value.__name__ if isinstance(value, ModuleType) else ""


def meaning(path: tuple[str, ...], namespace: Mapping[str, object]) -> Symbol | None:
    """Describe a dotted name of the language; None for names of the notebook or the cell."""
    value = namespace.get(path[0])
    if isinstance(value, ModuleType) and value.__name__ not in ("nnmagic", "nnmagic.relay"):
        return _of_module(path, namespace) or _language_symbol(path) if len(path) > 1 else None
    member = {**other_members(), **members()}.get(path[-1]) if len(path) > 1 else None
    if path[0] in namespace and not isinstance(value, ModuleType):
        return member
    if len(path) == 1 and path[0] in symbols():
        return symbols()[path[0]]
    return _language_symbol(path) or _of_module(path, namespace) or member


def _of_module(path: tuple[str, ...], namespace: Mapping[str, object]) -> Symbol | None:
    """Describe ``module.name``, or ``module.name.method`` of a universal function."""
    if len(path) < 2:
        return None
    if (found := module_symbols(module_named(path[:-1], namespace)).get(path[-1])) is not None:
        return replace(found, name=".".join(path))
    of_numpy = len(path) > 2 and module_named(path[:-2], namespace) == "numpy"
    return ufunc_symbols(path[-2]).get(path[-1]) if of_numpy else None


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


def _library_symbol(name: str, value: object, kind: str = "function") -> Symbol:
    """Describe a name by the documentation of Python or NumPy."""
    numpy = f"numpy.{name}" if name in library.NUMPY_NAMES and kind == "function" else None
    return Symbol(name, kind, library.first_sentence(value), library.parameters_of(value), numpy=numpy)


def _constant_symbol(name: str, value: DType | float | None) -> Symbol:
    if isinstance(value, DType):
        return Symbol(name, "dtype", f"The dtype {value.name}.")
    return Symbol(
        name, "constant", f"The constant {value}." if value is not None else "A new dimension of size 1."
    )
