"""Compile a function without types for the types of its calls, and hold what was compiled so far."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.diagnostics import Source, TinyNNError, TinyNNWarning
from nnmagic.fork_safety import Lock
from nnmagic.functions.arguments import open_signatures
from nnmagic.functions.arguments.argument_types import PYTHON_INTEGERS, nested_type, plain_number
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.captured import Captured
from nnmagic.functions.cells.varying_sizes import VaryingSizes, without_sizes
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.relay.types import ITEMS, LIST, AnyDim, RecordType, TensorType, Type
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.program import FunctionInfo, Specialization
from nnmagic.tinynn.types.annotations import Generator
from nnmagic.tracebacks import short_errors, warn_caller

if TYPE_CHECKING:
    from nnmagic.functions.cells.compile_cell import CompiledCell

#: After so many specializations a warning says how to compile once for all sizes.
_MANY = 32

#: A list of more lists is taken as arrays at once.
_LONG = 64


@dataclass(frozen=True)
class Template:
    """A function before its types are known.

    Attributes:
        info: the function, with what is written of its types.
        source: the whole cell.
        captured: what its free names stand for, as the notebook had them when it was defined.
        options: the options of each compilation.
        key: equal only for the same definition with the same options and captured values.
        cache: whether specializations use the caches.

    """

    info: FunctionInfo
    source: Source
    captured: Captured = field(repr=False)
    options: Options
    key: str
    cache: bool
    qualname: str | None = None
    module: str | None = None


@dataclass
class UntypedCall:
    """What a call gives.

    Attributes:
        types: the types that it completes.
        values: what is known when the function is compiled.
        arguments: what the compiled function takes; those that become known are taken out.
        bound: the argument of each parameter, in order.

    """

    types: dict[str, Type | Generator]
    values: dict[str, object]
    arguments: dict[str, Any]
    bound: Sequence[Any]


class Specializations:
    """What a function without types was compiled to; any thread may call it.

    compiled: the functions by the types of calls. needed: for types without sizes, the arguments that are
    known when the function is compiled for them. wrapped: the function of Python that it was
    made from, if any.
    """

    def __init__(self, template: Template, wrapped: FunctionType | ModuleType | None) -> None:
        self.template = template
        self.wrapped = wrapped
        self.compiled: dict[open_signatures.Key, CompiledFunction] = {}
        self.needed: dict[open_signatures.Key, tuple[str, ...]] = {}
        self._sizes = VaryingSizes()
        #: Which way of taking lists served the last call.
        self._way = 0
        #: Types of calls whose sizes stand for the names of those of other parameters.
        self._sized: set[open_signatures.Key] = set()
        self._compiling = Lock()
        info = template.info
        self._patterns = [info.open.get(parameter.name) for parameter in info.parameters]
        self._mentions_itself = len(re.findall(rf"\b{info.name}\b", info.source)) > 1

    def rows(self, bound: Sequence[Any]) -> list[tuple[Any, Any, Any]]:
        """Return each parameter with what is written of its type and its argument."""
        return list(zip(self.template.info.parameters, self._patterns, bound, strict=True))

    @short_errors
    def for_call(self, call: UntypedCall) -> CompiledFunction:
        """Return the function compiled for a call, which loses the arguments that are known by then."""
        lists = {name: type_ for name, type_ in call.types.items() if isinstance(type_, RecordType)}
        return self._for_lists(call, lists) if lists else self._for_sizes(call)

    def _for_lists(self, call: UntypedCall, lists: Mapping[str, RecordType]) -> CompiledFunction:
        """Return the function compiled for a call that gives lists.

        Where it cannot be compiled for them as they are, lists of lists are arrays (nested_type), and those
        of a function that calls itself have any length.
        """
        arguments = {parameter.name: value for parameter, _, value in self.rows(call.bound)}
        kinds = {name: type_.name for name, type_ in lists.items()}
        nested = {
            name: record
            for name in kinds
            if kinds[name] == ITEMS and (record := nested_type(arguments[name])) is not None
        }
        ways = [call]
        if nested:
            as_arrays = {name: type_ for name, (type_, _) in nested.items()}
            arrays = {name: array for name, (_, array) in nested.items()}
            ways.append(
                replace(call, types={**call.types, **as_arrays}, arguments={**call.arguments, **arrays})
            )
        if self._mentions_itself and LIST in kinds.values():
            any_length = {name: _of_any_length(name, type_) for name, type_ in ways[-1].types.items()}
            ways.append(replace(ways[-1], types=any_length, arguments=dict(ways[-1].arguments)))
        first, refused = self._way or int(any(len(arguments[name]) > _LONG for name in nested)), None
        for number in sorted(range(len(ways)), key=lambda number: number != first):
            try:
                compiled = self._for_sizes(ways[number])
            except TinyNNError as error:
                refused = refused or error
                continue
            self._way = number
            if number:
                call.arguments.clear()
                call.arguments.update(ways[number].arguments)
            return compiled
        assert refused is not None
        raise refused

    def _for_sizes(self, call: UntypedCall) -> CompiledFunction:
        """Return the function compiled for the types of a call.

        Sizes that vary get names, if it can be compiled for these. Where it cannot for the named sizes of
        other parameters, it is for those of the call.
        """
        key = open_signatures.specialization_key(call.types, call.values)
        if (compiled := self.compiled.get(key)) is not None:
            return compiled
        if (named := self._sizes.name(call.types, call.values)) is not None:
            try:
                return self._for_numbers(replace(call, types=named), finds_more=False)
            except TinyNNError:
                self._sizes.keep(call.types, call.values)
        sizes = self._sizes_of(call.bound)
        sized = replace(call, types={**call.types, **sizes})
        if key in self._sized:
            return self._for_numbers(sized)
        try:
            return self._for_numbers(call)
        except TinyNNError as error:
            if sizes.keys() <= call.types.keys():
                raise
            refused = error
        try:
            compiled = self._for_numbers(sized)
        except TinyNNError:
            raise refused from None
        # The next call of these types need not fail first.
        self._sized.add(key)
        return compiled

    def _sizes_of(self, bound: Sequence[Any]) -> dict[str, Type | Generator]:
        """Return the types of parameters with named sizes, with the sizes of a call if they are possible."""
        sizes: dict[str, int] = {}
        types: dict[str, Type | Generator] = {}
        for parameter, pattern, value in self.rows(bound):
            if not isinstance(pattern, TensorType) or not isinstance(value, np.ndarray):
                continue
            for dim, size in zip(pattern.shape, value.shape, strict=False):
                if isinstance(dim, AnyDim) and sizes.setdefault(str(dim.label), size) != size:
                    return {}
            if any(isinstance(dim, AnyDim) for dim in pattern.shape) and value.ndim == len(pattern.shape):
                types[parameter.name] = replace(pattern, shape=value.shape)
        return types if all(map(str.isidentifier, sizes)) else {}

    def _for_numbers(self, call: UntypedCall, *, finds_more: bool = True) -> CompiledFunction:
        """Return the function compiled for types, and for the numbers of a call that it needs to know.

        finds_more: whether more of them may be needed than for other sizes.
        """
        key = open_signatures.specialization_key(call.types, call.values)
        if (compiled := self.compiled.get(key)) is not None:
            return compiled
        rows = [row for row in self.rows(call.bound) if row[0].name in call.arguments]
        numbers = {
            parameter.name: number
            for parameter, pattern, value in rows
            if pattern in (None, *PYTHON_INTEGERS) and (number := plain_number(value)) is not MISSING
        }
        lists = [
            parameter.name
            for parameter, _, value in rows
            if isinstance(value, list) and _makes_an_array(value)
        ]
        like = without_sizes(call.types, call.values)
        needed = [name for name in self.needed.get(like, ()) if name in numbers]
        refused = None
        try:
            compiled = self.specialize(*_with_known(call, {name: numbers[name] for name in needed}))
        except TinyNNError as error:
            refused = _of_lists(error, lists)
            if len(needed) == len(numbers) or not finds_more:
                raise refused from None
        if compiled is None:
            try:
                newly = self._find_needed_numbers(call, numbers)
            except TinyNNError as error:
                raise refused if lists and refused is not None else error from None
            needed = [name for name in numbers if name in newly or name in needed]  # values may decide which
            compiled = self.specialize(*_with_known(call, {name: numbers[name] for name in needed}))
            self.needed[like] = tuple(needed)
        for name in needed:
            del call.arguments[name]
        return compiled

    def _find_needed_numbers(self, call: UntypedCall, numbers: Mapping[str, object]) -> tuple[str, ...]:
        """Return which numbers must be known for the function to be compiled.

        Raises TinyNNError where it cannot be compiled with all of them.
        """
        needed = dict(numbers)
        self._compile_quietly(*_with_known(call, needed), build=False)
        # What can be left out is left out for good: as many compilations as numbers, and not one
        # for each subset of them.
        for name in numbers if len(numbers) > 1 else ():
            others = {other: number for other, number in needed.items() if other != name}
            with contextlib.suppress(TinyNNError):
                self._compile_quietly(*_with_known(call, others), build=False)
                needed = others
        return tuple(needed)

    @short_errors
    def specialize(
        self, types: Mapping[str, Type | Generator], values: Mapping[str, object], *, build: bool = True
    ) -> CompiledFunction:
        """Return the function compiled for types; ``build``: with its machine code. Raises TinyNNError."""
        key = open_signatures.specialization_key(types, values)
        compiled = self.compiled.get(key)
        if compiled is None:
            with self._compiling:
                compiled = self.compiled.get(key) or self._compile(types, values, build=build)
                self.compiled[key] = compiled
            if len(self.compiled) == _MANY:
                hint = 'name the sizes that vary, as in Tensor[("n", 3), f32]'
                if numbers := sorted({name for names in self.needed.values() for name in names}):
                    hint += f"; it is compiled for each value of {', '.join(numbers)}"
                message = f"{self.template.info.name}() has been compiled for {_MANY} sets of types: {hint}"
                warn_caller(message, TinyNNWarning)
        return compiled

    def _compile(
        self, types: Mapping[str, Type | Generator], values: Mapping[str, object], *, build: bool
    ) -> CompiledFunction:
        cell = self._compile_quietly(types, values, build=build)
        for warning in cell.warnings:
            warn_caller(warning.render(), TinyNNWarning)
        (compiled,) = cell.functions
        return CompiledFunction(
            compiled._definition,
            compiled.cache_info,
            qualname=self.template.qualname,
            module=self.template.module,
            wrapped=self.wrapped,
        )

    def _compile_quietly(
        self, types: Mapping[str, Type | Generator], values: Mapping[str, object], *, build: bool
    ) -> CompiledCell:
        from nnmagic.functions.cells.compile_cell import compile_cell

        template = self.template
        specialization = Specialization(template.info.name, dict(types), dict(values))
        return compile_cell(
            template.source,
            template.captured.namespace,
            template.options,
            cache=template.cache,
            specialization=specialization,
            build=build,
        )


def _with_known(
    call: UntypedCall, constants: Mapping[str, object]
) -> tuple[dict[str, Type | Generator], dict[str, object]]:
    """Return the types and the compile-time values of a call with some more arguments known."""
    types = {name: type_ for name, type_ in call.types.items() if name not in constants}
    return types, {**call.values, **constants}


def _of_any_length(name: str, type_: Type | Generator) -> Type | Generator:
    """Return the type of a list of any length for that of a list."""
    if not isinstance(type_, RecordType) or type_.name != LIST:
        return type_
    (rows,) = type_.fields
    assert isinstance(rows, TensorType)
    return replace(type_, fields=(replace(rows, shape=(AnyDim(f"{name}_0"), *rows.shape[1:])),))


def _makes_an_array(items: object) -> bool:
    """Return whether a list is one of numbers, or of lists of as many: what numpy.asarray takes."""
    try:
        return np.asarray(items).dtype.kind in "biufc"
    except (TypeError, ValueError):
        return False


def _of_lists(error: TinyNNError, lists: Sequence[str]) -> TinyNNError:
    """Return an error that says which argument is a list: what is written for arrays may not take one."""
    first, *rest = error.diagnostics
    if not lists or first.hint is not None:
        return error
    hint = f"`{lists[0]}` is a list, as the call gives it; give an array: numpy.asarray({lists[0]})"
    return TinyNNError([replace(first, hint=hint), *rest])
