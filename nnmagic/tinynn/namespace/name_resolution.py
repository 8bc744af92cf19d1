"""Resolve the names of a cell: its functions, then the notebook's names, then the language's.

Every look-up in the notebook is recorded for the cache.
"""

from __future__ import annotations

import builtins
import difflib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np

from nnmagic.diagnostics import Span, closest
from nnmagic.relay.callbacks import PythonFunction
from nnmagic.relay.expr import Constructor, Expr
from nnmagic.relay.module import TypeData
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.types import GlobalTypeVar, Type
from nnmagic.tinynn.builtins import BUILTINS, MODULES
from nnmagic.tinynn.namespace import compiled_values, random_functions
from nnmagic.tinynn.namespace import unsupported_functions as unsupported
from nnmagic.tinynn.namespace.capture import (
    NotCapturableError,
    capture,
    holds_values,
    not_capturable,
    snapshot,
)
from nnmagic.tinynn.namespace.library_functions import library_function, own_name
from nnmagic.tinynn.namespace.linking import Linker, same_type
from nnmagic.tinynn.namespace.lookup import CALLED, look_up
from nnmagic.tinynn.namespace.notebook_functions import (
    RuledFunction,
    method_code,
    python_code,
    ruled_function,
)
from nnmagic.tinynn.namespace.torch_modules import module_value
from nnmagic.tinynn.namespace.torch_values import is_torch_module
from nnmagic.tinynn.namespace.unsupported_names import (
    PREFIXES,
    language_name,
    no_field,
    operator_hint,
    refuse_python_only,
    unsupported_name,
    unusable,
)
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.types.annotations import DESTINATIONS, DTYPES, OpenTensor, dtype_named
from nnmagic.tinynn.values import values as v

_TYPES_IN_LOWER_CASE = {each.lower(): each for each in ("InOut", "Out", "Tensor")}
_COMPLEX = frozenset(("complex_", "cfloat", "cdouble", "csingle", "c32", "c256"))
#: The modules of nnmagic that have the names of cells, with what they are to `language_name`.
_OWN_MODULES = {"nnmagic": "nnmagic", "nnmagic.numpy": "nnmagic", "nnmagic.relay": "relay"}
#: First parts of the written paths of operators.
_FAMILIES = frozenset({*PREFIXES, *(name.partition(".")[0] for name in OPERATORS if "." in name)})


def _assertion() -> TypeData:
    header = GlobalTypeVar("Assertion")
    return TypeData(header, (), (Constructor("Holds", (), header, 0), Constructor("Fails", (), header, 1)))


#: Data type of assertions; no match covers its second constructor, so a failed assertion is a match error.
ASSERTION = _assertion()


def is_assertion(data: TypeData) -> bool:
    """Return whether a data type serves only assertions."""
    return data.header == ASSERTION.header and same_type(data, ASSERTION)


class UnknownNameError(v.RefusalError):
    """A name is not defined."""


@dataclass(slots=True)
class NameResolver:
    """Resolver of the names that are not local: of the cell, the notebook and the language."""

    namespace: Mapping[str, object]
    functions: dict[str, v.GlobalFunction] = field(default_factory=dict)
    #: The functions of the cell whose parameters have open types, and what is written of these types.
    templates: dict[str, v.LocalFunction] = field(default_factory=dict)
    open_types: dict[str, Mapping[str, Type | OpenTensor | None]] = field(default_factory=dict)
    data_types: dict[str, v.DataTypeName] = field(default_factory=dict)
    constructors: dict[str, v.ConstructorName] = field(default_factory=dict)
    records: dict[str, v.RecordName] = field(default_factory=dict)
    failed_records: set[str] = field(default_factory=set)
    refused: frozenset[str] = frozenset()  # names that a refused statement would have bound
    linker: Linker = field(default_factory=Linker)
    looked_up: dict[str, object] = field(default_factory=dict)
    #: What files of ``nn.Module``s import that the notebook does not.
    imported: dict[str, object] = field(default_factory=dict)
    _found: dict[str, object] = field(default_factory=dict)
    _values: dict[str, v.Value] = field(default_factory=dict)

    def lookup(self, path: tuple[str, ...], span: Span, local: Iterable[str] = ()) -> tuple[v.Value, int]:
        """Return the value of a dotted name, and the number of its parts that were used.

        ``np.pi`` takes two parts, ``weights.shape`` one: the rest are attributes of the value.
        """
        if path[0] in self.failed_records:
            return v.FAILED, 1
        for table in (self.functions, self.templates, self.data_types, self.constructors, self.records):
            if path[0] in table:
                return table[path[0]], 1
        value = self.look_up_notebook(path[0]) if not self._is_output_history(path[0]) else MISSING
        if value is not MISSING:
            return self._of_notebook(path, value, span)
        refuse_python_only(path[0], span)
        built_in = language_name(path)
        if built_in is not None:
            return built_in
        constructor = self._constructor_of_notebook(path[0], span)
        if constructor is not None:
            return constructor, 1
        if path[0] in self.refused:
            return v.FAILED, 1
        raise self._unknown_name(path, span, local)

    def lookup_import(
        self, path: tuple[str, ...], imports: Mapping[str, object], span: Span
    ) -> tuple[v.Value, int]:
        """Return what `lookup` does, of a name that a function imports."""
        local = NameResolver(imports, linker=self.linker)
        return local._of_notebook(path, imports[path[0]], span)

    def python_function(self, name: str, span: Span) -> PythonFunction:
        """Return the function of Python that a name of the notebook stands for. Raises RefusalError."""
        first = name.partition(".")[0]
        if first in self.functions or first in self.templates:
            message = f"callback calls a function of Python, and `{first}` is one of the cell"
            raise v.RefusalError(message, span, hint="call it without callback")
        value = look_up(self.namespace, f"{name}{CALLED}")
        self.looked_up[f"{name}{CALLED}"] = value
        if value is MISSING and callable(built_in := getattr(builtins, name, None)):
            value = PythonFunction(built_in, name)
        if value is MISSING:
            close = closest(name, [key for key, each in self.namespace.items() if callable(each)])
            hint = f"did you mean {close}?" if close else "define it in another cell, which runs before"
            raise UnknownNameError(f"unknown name `{name}`", span, hint=hint)
        if not isinstance(value, PythonFunction):
            what = not_capturable(value).what
            raise v.RefusalError(f"callback calls a function of the notebook, and `{name}` is {what}", span)
        function = value.function
        if (
            compiled_values.as_compiled_function(function) is not None
            or compiled_values.as_template(function) is not None
        ):
            message = f"callback calls a function of Python, and `{name}` is compiled"
            raise v.RefusalError(message, span, hint="call it without callback")
        return value

    def declare(self, data: v.DataTypeName, span: Span) -> None:
        """Add a data type of the cell, with its constructors."""
        name = data.type.header.name
        self.data_types[name] = data
        for constructor in data.type.constructors:
            self.constructors[constructor.name] = v.ConstructorName(
                constructor, data.fields[constructor.name]
            )
        self.linker.link_types("this cell", {name: data.type}, {}, span)

    def is_captured(self, expr: Expr) -> bool:
        """Return whether an expression is an array of the notebook."""
        return any(isinstance(value, v.Computed) and value.expr is expr for value in self._values.values())

    def types(self) -> dict[str, TypeData]:
        """Return the data types of the module, by name."""
        own = {name: data.type for name, data in self.data_types.items()}
        return {**self.linker.types, **own}

    def assertion(self, span: Span) -> tuple[Constructor, Constructor]:
        """Return the constructors for a true and a false assertion; link their data type."""
        self.linker.link_types("`assert`", {ASSERTION.header.name: ASSERTION}, {}, span)
        return ASSERTION.constructors[0], ASSERTION.constructors[1]

    def _is_output_history(self, name: str) -> bool:
        """Return whether a name is IPython's ``Out``, which every notebook has: a cell means the type."""
        return name == "Out" and isinstance(self.namespace.get(name), dict)

    def look_up_notebook(self, name: str) -> object:
        """Return what a name of the notebook stands for, or MISSING."""
        first = name.partition(".")[0]
        if first in self.imported and first not in self.namespace:
            return look_up(self.imported, name)
        if name not in self._found:
            self._found[name] = self.looked_up[name] = look_up(self.namespace, name)
        return self._found[name]

    def _of_notebook(self, path: tuple[str, ...], value: object, span: Span) -> tuple[v.Value, int]:
        if isinstance(value, ModuleType) and value.__name__ in _OWN_MODULES:  # under any name of the notebook
            skipped = int(value.__name__ == "nnmagic" and path[1:2] == ("numpy",))  # nnmagic.numpy.exp
            language_names = language_name((_OWN_MODULES[value.__name__], *path[1 + skipped :]))
            if language_names is not None:
                return language_names[0], language_names[1] + skipped
            if path[1 + skipped : 2 + skipped] == ("Array",):
                return v.TupleConstructor("ndarray"), 2 + skipped
        if (own_path := own_name(value)) is not None:
            if own_path[0] == "builtins":
                refuse_python_only(own_path[1], span)
            language_names = language_name((own_path[1], *path[1:]))
            if language_names is not None:
                return language_names
        used, module = 1, unsupported.library_of(value)
        if (
            makes_generator := random_functions.generator_function(value)
        ) is not None:  # after an import from numpy.random
            return v.BuiltinName(makes_generator), 1
        self._refuse_random(path, value, span)
        if (function_of_library := library_function(value)) is not None:  # after `from numpy import exp`
            return v.BuiltinName(function_of_library[1]), 1
        while isinstance(value, ModuleType) and used < len(path):
            if (language_names := language_name(path)) is not None and _means_the_language(language_names[0]):
                return language_names  # decided by the written path: `nn` may be any module
            function = MODULES.get(value.__name__, {}).get(path[used])
            if function is not None:
                return v.BuiltinName(function), used + 1
            used, module = used + 1, value.__name__
            member = self.look_up_notebook(".".join(path[:used]))
            if member is MISSING and used < len(path):  # `np.fft` is not imported before Python asks for it
                function = MODULES.get(f"{value.__name__}.{path[used - 1]}", {}).get(path[used])
                if function is not None:
                    return v.BuiltinName(function), used + 1
            if member is MISSING:
                raise self._no_member(path[:used], value, span)
            value = member
        while used < len(path) and holds_values(value):
            if (owner := ".".join(path[:used])) not in self._values:
                self.looked_up.pop(owner, None)  # the captured members count, not the object's identity
            used += 1
            member = self.look_up_notebook(".".join(path[:used]))
            if member is MISSING and method_code(value, path[used - 1]) is not None:
                self.looked_up[owner] = value
                return v.ModuleOf(value, owner, {}, path[used - 1]), used
            if member is MISSING:
                raise no_field(path[:used], value, span)
            value, module = member, None
        name = ".".join(path[:used])
        if module is not None and unsupported.is_library(module) and python_code(value) is not None:
            raise unusable(path[:used], name, not_capturable(value), span, module)
        try:
            return self._value(name, value, span), used
        except NotCapturableError as problem:
            name += problem.path
            is_dtype = isinstance(value, type) and issubclass(value, np.generic)
            from_library = (
                module is not None and unsupported.is_library(module) and callable(value) and not is_dtype
            )
            raise unusable(path[:used], name, problem, span, module if from_library else None) from None

    def _refuse_random(self, path: tuple[str, ...], value: object, span: Span) -> None:
        """Raise RefusalError for a function of a library, or a generator, that draws random numbers."""
        name = ".".join(path)
        own, drawn = language_name(path), None
        if isinstance(value, ModuleType):
            written = own is not None and _means_the_language(own[0])
            drawn = None if written else random_functions.draws_random_numbers(value, path[1:])
            if drawn in random_functions.NUMPY_GENERATORS and value.__name__.startswith("numpy"):
                return
        elif random_functions.is_random_function(value):
            drawn = str(getattr(value, "__name__", path[0]))
        if drawn is not None:
            message = f"`{name}` is not supported in a cell, which has no hidden state"
            hint = (
                random_functions.numpy_hint(drawn)
                if random_functions.is_of_numpy(value)
                else random_functions.random_hint(drawn)
            )
            raise v.RefusalError(message, span, hint=hint)
        if random_functions.is_generator(value):
            message = f"`{path[0]}` is a generator of random numbers, whose state a cell cannot change"
            hint = random_functions.random_hint(path[-1] if len(path) > 1 else "")
            if isinstance(value, np.random.Generator):
                hint = f"pass it as an argument, with a parameter {path[0]}: np.random.Generator"
            raise v.RefusalError(message, span, hint=hint)

    def _value(self, name: str, value: object, span: Span) -> v.Value:
        """Capture a value once per name, so that an array becomes one constant."""
        if name not in self._values:
            function, data = (
                compiled_values.as_compiled_function(value),
                compiled_values.as_compiled_type(value),
            )
            template = compiled_values.as_template(value)
            if template is not None:
                self._values[name] = self.linker.link_template(name, template)
            elif function is not None:
                self._values[name] = self.linker.link_function(name, function, span)
            elif data is not None:
                self._values[name] = self._data_type(name, data, span)
            elif (record := compiled_values.as_record_type(value)) is not None:
                self._values[name] = v.RecordName(record)
            elif isinstance(value, ModuleType):
                raise not_capturable(value)
            elif is_torch_module(value):
                self.looked_up[name] = value
                self._values[name] = module_value(value, name)
            elif (ruled := ruled_function(value)) is not None:
                self._values[name] = self._ruled(name, ruled, span)
                self.looked_up[name] = value
            elif (code := python_code(value)) is not None:
                self.looked_up[name] = value
                self._values[name] = v.ModuleOf(code, name, {}, "")
            elif not isinstance(value, type) and method_code(value, "__call__") is not None:
                self.looked_up[name] = value
                self._values[name] = v.ModuleOf(value, name, {}, "__call__")
            else:
                self.looked_up[name] = snapshot(value)
                self._values[name] = capture(self.looked_up[name])
        return self._values[name]

    def _ruled(self, name: str, ruled: RuledFunction, span: Span) -> v.Value:
        """Return a function with its gradient rule. Raises RefusalError."""
        if None in ruled.rules and not ruled.each:
            hint = f"run {name}.def{ruled.kind.removeprefix('custom_')}(...) before this cell"
            raise v.RefusalError(f"`{name}` is a {ruled.kind} without a rule", span, hint=hint)
        parts = [
            v.Operand(v.Known(None) if part is None else self._value(f"{name}.part{word}", part, span), span)
            for word, part in enumerate((ruled.function, *ruled.rules))
        ]
        for word in range(len(parts)):  # the function with its rule counts, under its name
            self.looked_up.pop(f"{name}.part{word}", None)
        return v.GradientOf(
            ruled.kind, parts[0], ruled.nondiff, has_aux=ruled.each, arguments=tuple(parts[1:])
        )

    def _data_type(self, origin: str, data: compiled_values.CompiledType, span: Span) -> v.DataTypeName:
        name = data.type.header.name
        if data.type.type_vars:
            raise NotCapturableError(f"the data type {name} with type parameters", "use it in Relay text")
        self.linker.link_types(f"`{origin}`", data.types, data.infos, span)
        return v.DataTypeName(self.linker.types[name], data.fields)

    def _constructor_of_notebook(self, constructor_name: str, span: Span) -> v.ConstructorName | None:
        """Return a constructor, by its bare name, of a data type of the notebook; None if there is none."""
        candidates = compiled_values.types_with(self.namespace, constructor_name)
        if not candidates:
            return None
        self.looked_up[f"{constructor_name}()"] = tuple(candidates.values())
        if len(candidates) > 1:
            first, second, *_ = candidates
            hint = f"write {first}.{constructor_name} or {second}.{constructor_name}"
            raise v.RefusalError(
                f"`{constructor_name}` is a constructor of {first} and of {second}", span, hint=hint
            )
        ((name, value),) = candidates.items()
        data = compiled_values.as_compiled_type(value)
        assert data is not None
        kept = self._data_type(name, data, span)
        constructor = next(
            candidate for candidate in kept.type.constructors if candidate.name == constructor_name
        )
        return v.ConstructorName(constructor, kept.fields[constructor_name])

    def _no_member(self, path: tuple[str, ...], module: ModuleType, span: Span) -> v.RefusalError:
        name = ".".join(path)
        if unsupported.is_library(module.__name__):
            instead = unsupported.cell_equivalent(path, module.__name__, MODULES.get(module.__name__, ()))
            if instead or path[-1] in dir(module):  # some modules load members lazily
                return unsupported_name(name, instead, span)
        elif "__getattr__" in vars(module):  # it may provide the name, but no code of the notebook runs
            hint = "compute what you need in another cell and use that"
            return v.RefusalError(
                f"`{name}` is not a value that a cell can use: nothing of Python runs in it", span, hint=hint
            )
        close = difflib.get_close_matches(
            path[-1], [member for member in vars(module) if member[:1] != "_"], n=1
        )
        suggestion = f"did you mean {'.'.join([*path[:-1], close[0]])}?" if close else None
        return v.RefusalError(f"the module {module.__name__} has no {path[-1]}", span, hint=suggestion)

    def _unknown_name(self, path: tuple[str, ...], span: Span, local: Iterable[str]) -> v.RefusalError:
        if len(path) > 1:
            return self._unknown_path(path, span, local)
        name = path[0]
        defined = [*local, *self.functions, *BUILTINS, *DTYPES, "Tensor", *DESTINATIONS]
        defined += [key for key in self.namespace if not key.startswith("_")]
        short = {operator.rpartition(".")[2] for operator in OPERATORS}
        suggestions = difflib.get_close_matches(
            name, [*dict.fromkeys(defined), *OPERATORS, *sorted(short)], n=1
        )
        hint = "assign it first, or define it in another cell"
        if name in unsupported.IMPORTS:
            hint = unsupported.import_hint(name)
        elif name in _TYPES_IN_LOWER_CASE:
            hint = f"did you mean {_TYPES_IN_LOWER_CASE[name]}?"
        elif random_functions.is_random_name(name):
            hint = random_functions.random_hint(name)
        elif name in unsupported.NOT_HERE:
            hint = unsupported.NOT_HERE[name]
        elif name.lower() in _COMPLEX:
            hint = "write c64 or c128"
        elif (foreign := unsupported.foreign_hint(name)) is not None:
            hint = foreign
        elif suggestions and (len(name) > 2 or suggestions[0].lower() == name.lower()):
            hint = f"did you mean {suggestions[0]}?"
        return UnknownNameError(f"unknown name `{name}`", span, hint=hint)

    def _unknown_path(self, path: tuple[str, ...], span: Span, local: Iterable[str]) -> v.RefusalError:
        """Return the error for a dotted name whose first part is undefined and no family of operators."""
        first, name = path[0], ".".join(path)
        if first == "random" or path[:2] in (("np", "random"), ("numpy", "random"), ("jax", "random")):
            close = closest(name, [builtin for builtin in BUILTINS if "." in builtin])
            make_hint = (
                random_functions.random_hint if first in ("random", "jax") else random_functions.numpy_hint
            )
            hint = f"did you mean {close}?" if close and first == "random" else make_hint(path[-1])
            return UnknownNameError(f"unknown name `{name}`", span, hint=hint)
        if first in _FAMILIES:
            return UnknownNameError(f"unknown operator `{name}`", span, hint=operator_hint(path))
        if first in unsupported.IMPORTS:
            hint = unsupported.import_hint(first)
            dtype = dtype_named(path[-1])
            own = (
                dtype.short
                if dtype
                else unsupported.cell_equivalent(path[-1:], unsupported.IMPORTS[first], ())
            )
            if own is not None:
                hint += f", or write {own}, which needs none"
            return UnknownNameError(f"`{first}` is not defined in the notebook", span, hint=hint)
        if first == "self":
            hint = "a function of a cell has no `self`: give it what it needs as parameters"
            return UnknownNameError("unknown name `self`", span, hint=hint)
        close = closest(first, [*local, *(key for key in self.namespace if key[:1] != "_")])
        hint = "assign it first, or define it in another cell"
        if close or first in sys.stdlib_module_names:
            hint = f"did you mean {close}?" if close else f"run `import {first}` in another cell"
        return UnknownNameError(f"unknown name `{first}`", span, hint=hint)


def _means_the_language(value: v.Value) -> bool:
    """Return whether a written path such as ``nn.relu`` and ``random.normal`` means the language's own."""
    dotted = isinstance(value, v.BuiltinName) and value.builtin.name.startswith("random.")
    return dotted or isinstance(value, v.OperatorName)
