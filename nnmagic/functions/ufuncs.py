"""Make a NumPy ufunc of a compiled function.

Each loop is a program for all rows, which is compiled at its first use: the text of a cell that calls the
function for each row, by ``vmap`` where that is possible. Reductions run the function along the rows.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nnmagic.diagnostics import Source, TinyNNError
from nnmagic.functions.caching.build_or_load import Use
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.specializing import SpecializingFunction
from nnmagic.relay.callbacks import callbacks_in
from nnmagic.relay.signatures import format_type
from nnmagic.relay.types import ARRAY_DTYPES, AnyDim, Dim, TensorType, TupleType, Type
from nnmagic.tinynn.parameters import MISSING

#: The dtypes of the loops of a function without types, in NumPy's order.
_DTYPES = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)

#: The axis of the rows, in the types of a program.
_ROWS = "rows"


@dataclass(frozen=True)
class _LoopOperand:
    """An operand of a loop: its name in the text of a program, its dtype, and the sizes of a row.

    ``keyword``: the name by which the function takes it, if it takes it by name only.
    """

    name: str
    dtype: str
    dims: tuple[int | str, ...]
    keyword: str = ""

    @property
    def row(self) -> TensorType:
        return TensorType(
            tuple(AnyDim(dim) if isinstance(dim, str) else dim for dim in self.dims), self.dtype
        )

    @property
    def rows(self) -> TensorType:
        return TensorType((AnyDim(_ROWS), *self.row.shape), self.dtype)


class _TypedLoop:
    """A loop of a ufunc, for operands of some dtypes."""

    def __init__(self, function: CompiledFunction) -> None:
        """Look at the function's types. Raises TypeError for those that no ufunc has."""
        self.function = function
        #: The programs that were compiled so far, by what they do.
        self.programs: dict[object, CompiledFunction] = {}
        self.inputs, self.outputs = _operands(function)
        operands = [*self.inputs, *self.outputs]
        #: The distinct sizes, and the place of each size of an operand among them.
        self.dims = list(dict.fromkeys(dim for operand in operands for dim in operand.dims))
        self.places = [[self.dims.index(dim) for dim in operand.dims] for operand in operands]
        self.dtypes = [ARRAY_DTYPES[operand.dtype] for operand in operands]
        self._alone = (False,) * len(self.inputs)
        #: Whether it calls functions of Python, which may keep arrays for longer than NumPy does.
        self._calls_python = any(map(callbacks_in, function._definition.module.functions.values()))
        self._runs_in_python = True
        self.words: np.ndarray | None = None

    @property
    def signature(self) -> str:
        """The signature of a generalized ufunc; empty if rows are numbers."""
        if not self.dims:
            return ""
        shown = [f"({','.join(map(str, each.dims))})" for each in [*self.inputs, *self.outputs]]
        return f"{','.join(shown[: len(self.inputs)])}->{','.join(shown[len(self.inputs) :])}"

    def __call__(self, *arrays: np.ndarray) -> None:
        """Run the loop that NumPy asks for: of each operand the rows. Raises what the function raises."""
        operands, outputs = arrays[: len(self.inputs)], arrays[len(self.inputs) :]
        inputs = [np.array(array) for array in operands] if self._calls_python else list(operands)
        for number, (array, out) in enumerate(itertools.product(operands, outputs)):
            if np.may_share_memory(array, out):
                if len(out) > 1 and self._run_along_rows(arrays):
                    return
                inputs[number // len(outputs)] = np.array(array)
        shared = self._alone
        if self.dims and len(outputs[0]) > 1:
            shared = tuple(not array.strides[0] and array.ndim > 1 for array in operands)
            if all(shared):
                shared = (False, *shared[1:])
            inputs = [
                array[0] if is_shared else array for array, is_shared in zip(inputs, shared, strict=True)
            ]
        program = self._program(shared)
        program(*inputs, *outputs)
        if self._runs_in_python and shared is self._alone and not self.dims:
            self._run_without_python(program)

    def _run_without_python(self, program: CompiledFunction) -> None:
        """Let machine code run short loops from now on, if it can."""
        from nnmagic.engine.relax.runtime.ufunc import run_without_python

        self._runs_in_python = False
        executable = program._definition.executable
        of_loop = getattr(executable, "loop_program", None)
        if (
            of_loop is not None
            and self.words is not None
            and (loops := of_loop(len(self.inputs))) is not None
        ):
            self._held = loops
            run_without_python(self.words, loops)

    def _run_along_rows(self, arrays: Sequence[np.ndarray]) -> bool:
        """Run a loop each row of which takes the row before, and return True; False if it is none."""
        if self.dims or len(arrays) != 3:
            return False
        first, second, out = arrays
        if out.strides == (0,):
            out[0] = self._program("reduce")(np.array(first[0]), second)
        elif first.strides == out.strides and out.ctypes.data - first.ctypes.data == out.strides[0]:
            self._program("accumulate")(np.array(first[0]), second, out)
        else:
            return False
        return True

    def _program(self, what: tuple[bool, ...] | str) -> CompiledFunction:
        """Return the program for rows of which some arguments are ``shared``, or for a reduction."""
        program = self.programs.get(what)
        if program is None:
            if isinstance(what, str):
                program = self._compile(self._along_rows(what))
            else:
                program = self._compile_rows(what)
            self.programs[what] = program
        return program

    def _compile_rows(self, shared: tuple[bool, ...]) -> CompiledFunction:
        try:
            return self._compile(self._map(shared))
        except TinyNNError as error:
            with contextlib.suppress(TinyNNError):
                return self._compile(self._loop(shared))
            raise error from None

    def _compile(self, text: str) -> CompiledFunction:
        from nnmagic.functions.cells.compile_cell import compile_cell
        from nnmagic.functions.compiled import CompiledFunction

        definition = self.function._definition
        source = Source(f"<ufunc of {definition.name}>", text)
        cache = definition.use is not Use.NO
        cell = compile_cell(source, {"_function": self.function}, definition.options, cache=cache)
        assert isinstance(cell.result, CompiledFunction)
        return cell.result

    def _head(self, shared: tuple[bool, ...]) -> str:
        inputs = [
            f"{operand.name}: {format_type(operand.row if is_shared else operand.rows)}"
            for operand, is_shared in zip(self.inputs, shared, strict=True)
        ]
        outputs = [f"{operand.name}: Out[{format_type(operand.rows)}]" for operand in self.outputs]
        return f"def loop({', '.join([*inputs, *outputs])}):\n"

    def _call(self, arguments: Sequence[str]) -> str:
        written = [
            f"{input_type.keyword}={argument}" if input_type.keyword else argument
            for input_type, argument in zip(self.inputs, arguments, strict=True)
        ]
        return f"_function({', '.join(written)})"

    def _assign(self, value: str, at: str, indent: str) -> str:
        """Return the statements that assign the results of a call to elements of the outputs."""
        if len(self.outputs) == 1:
            return f"{indent}{self.outputs[0].name}[{at}] = {value}\n"
        variables = [f"part_{output.name}" for output in self.outputs]
        return f"{indent}{', '.join(variables)} = {value}\n" + "".join(
            f"{indent}{output.name}[{at}] = {variable}\n"
            for output, variable in zip(self.outputs, variables, strict=True)
        )

    def _map(self, shared: tuple[bool, ...]) -> str:
        names = [input_type.name for input_type in self.inputs]
        axes = "".join("None, " if is_shared else "0, " for is_shared in shared)
        listed = ", ".join(names)
        value = f"vmap(lambda {listed}: {self._call(names)}, in_axes=({axes}))({listed})"
        return self._head(shared) + self._assign(value, "...", "    ")

    def _loop(self, shared: tuple[bool, ...]) -> str:
        names = [
            input_type.name if is_shared else f"{input_type.name}[i]"
            for input_type, is_shared in zip(self.inputs, shared, strict=True)
        ]
        rows = self.inputs[shared.index(False)].name
        loop = f"    for i in range({rows}.shape[0]):\n"
        return self._head(shared) + loop + self._assign(self._call(names), "i", "        ")

    def _along_rows(self, what: str) -> str:
        """Return the text of ``reduce``, which returns the last value, or ``accumulate``, which keeps all."""
        first, second, out = *self.inputs, *self.outputs
        keeps = what == "accumulate"
        kept = f", {out.name}: Out[{format_type(out.rows)}]" if keeps else ""
        given = f"{first.name}: {format_type(first.row)}, {second.name}: {format_type(second.rows)}"
        return (
            f"def loop({given}{kept}):\n"
            f"    for i in range({second.name}.shape[0]):\n"
            f"        {first.name} = {self._call([first.name, f'{second.name}[i]'])}\n"
            + (f"        {out.name}[i] = {first.name}\n" if keeps else f"    return {first.name}\n")
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _TypedLoop, (self.function,), {"programs": self.programs}


def make_ufunc(function: CompiledFunction | SpecializingFunction) -> np.ufunc:
    """Return a ufunc of a function, with one loop for its dtypes, or one for each dtype if it has no types.

    Its operands are the parameters that have no default.

    Raises TypeError for a function that is none of arrays, TinyNNError for one without types that cannot be
    compiled for any dtype.
    """
    from nnmagic.functions.specializing import SpecializingFunction

    if isinstance(function, SpecializingFunction):
        return _make(function, _loops_of_dtypes(function))
    return _make(function, [_TypedLoop(function)])


def _make(function: CompiledFunction | SpecializingFunction, loops: Sequence[_TypedLoop]) -> np.ufunc:
    from nnmagic.engine.relax.runtime.ufunc import Rows
    from nnmagic.engine.relax.runtime.ufunc import make_ufunc as new_ufunc

    first = loops[0]
    return new_ufunc(
        _machine_code(function),
        function.__name__,
        function.__doc__ or "",
        Rows(len(first.inputs), first.places, first.signature),
        [(loop.dtypes, loop) for loop in loops],
        function,
        _restore,
    )


def _restore(function: CompiledFunction | SpecializingFunction, loops: Sequence[_TypedLoop]) -> np.ufunc:
    """Return the ufunc of a pickle, which holds its programs."""
    return function._keep_ufunc(lambda: _make(function, loops))


def _machine_code(function: CompiledFunction | SpecializingFunction) -> bytes:
    """Return the object file by which NumPy calls a loop: programs that CPython may call directly have it."""
    definition = getattr(function, "_definition", None)
    if definition is not None and (content := definition.content) is not None and "caller.o" in content.files:
        return bytes(content.files["caller.o"])
    from nnmagic.functions.compile import compile as compile_function

    plain = compile_function("def plain(x: f64):\n    return x + 1.0\n", engine="relax")
    artifact = plain._definition.executable.artifact
    assert artifact is not None
    return artifact.caller


def _loops_of_dtypes(function: SpecializingFunction) -> list[_TypedLoop]:
    """Return the loops of a function without types, whose operands have one dtype each."""
    loops, errors = list[_TypedLoop](), dict[str, TinyNNError]()
    for dtype in _DTYPES:
        completed = {
            parameter.name: _complete(parameter.name, function._template.info.open.get(parameter.name), dtype)
            for parameter in function.parameters
            if parameter.default is MISSING
        }
        types = {name: type_ for name, type_ in completed.items() if type_ is not None}
        if len(types) < len(completed):
            continue
        try:
            specialized = _TypedLoop(function.specialize(types, {}))
        except TinyNNError as error:
            errors[dtype] = error
        else:
            if not any(
                specialized.dtypes[: len(specialized.inputs)] == loop.dtypes[: len(loop.inputs)]
                for loop in loops
            ):
                loops.append(specialized)
    if not loops and not errors:
        raise TypeError(f"{function.name}() has no ufunc: no dtype is one of all its parameters")
    if not loops:
        raise _of_numbers(errors.get("float64") or errors.popitem()[1])
    return loops


def _of_numbers(error: TinyNNError) -> TinyNNError:
    """Return the error of a function whose parameters are numbers, which it does not say of them."""
    hint = 'a ufunc gives it numbers: give a parameter that is an array a type, as in x: Tensor[("n",), f64]'
    return TinyNNError([replace(each, hint=each.hint or hint) for each in error.diagnostics])


def _complete(name: str, pattern: Any, dtype: str) -> Type | None:
    """Return the type of a parameter for a loop of a dtype, None if it has none.

    What nobody wrote is a number of the dtype, and an axis of any size has a size of its own.
    """
    from nnmagic.tinynn.types.annotations import OpenTensor

    if pattern is None:
        return TensorType((), dtype)
    if not isinstance(pattern, OpenTensor):
        completed: Type = pattern
        return completed
    if pattern.own_dtype is None and not pattern.allows(dtype):
        return None
    dims = [dim for dim in pattern.shape or () if dim is not Ellipsis]
    named = [f"{name}_{number}" if dim is None else dim for number, dim in enumerate(dims)]
    return TensorType(
        tuple(AnyDim(dim) if isinstance(dim, str) else dim for dim in named),
        dtype if pattern.own_dtype is None else pattern.own_dtype.name,
    )


def _operands(function: CompiledFunction) -> tuple[list[_LoopOperand], list[_LoopOperand]]:
    """Return the operands of a function's ufunc. Raises TypeError for a function that cannot be one."""
    call = function._definition.call
    if call.destinations:
        raise TypeError(f"{function.name}() changes its arguments, and has no ufunc: return the values")
    result = function._definition.module.functions[function.name].ret_type
    results = result.fields if isinstance(result, TupleType) else (result,)
    sizes: dict[object, int | str] = {}
    unnamed = itertools.count()

    def name_of(dim: Dim, *, is_new: bool) -> int | str | None:
        if isinstance(dim, int):
            return int(dim)
        label = dim.label if isinstance(dim, AnyDim) else dim.name
        if label in sizes and label is not None:
            return sizes[label]
        if not is_new:
            return None
        plain = label is not None and label.isascii() and label.isidentifier() and label != _ROWS
        name = label if plain and label is not None else f"size_{next(unnamed)}"
        return sizes.setdefault(label if label is not None else name, name)

    def operand(name: str, what: str, type_: Type | None, *, is_new: bool) -> _LoopOperand:
        if not isinstance(type_, TensorType) or type_.dtype not in _DTYPES:
            shown = "nothing" if type_ is None else format_type(type_)
            raise TypeError(f"{function.name}() has no ufunc: {what} is {shown}, no array of NumPy's numbers")
        dims = [name_of(dim, is_new=is_new) for dim in type_.shape]
        if None in dims:
            shown = f"{format_type(type_)}, with a size that no parameter has"
            raise TypeError(f"{function.name}() has no ufunc: {what} is {shown}, which no signature can say")
        return _LoopOperand(name, type_.dtype, tuple(dim for dim in dims if dim is not None))

    inputs = []
    shown = call.signature.parameters.values()
    for number, (shown_parameter, parameter) in enumerate(zip(shown, call.parameters, strict=False)):
        if shown_parameter.default is shown_parameter.empty:
            made = operand(f"x{number}", f"`{shown_parameter.name}`", parameter.type, is_new=True)
            keyword = shown_parameter.name if shown_parameter.kind is shown_parameter.KEYWORD_ONLY else ""
            inputs.append(replace(made, keyword=keyword))
    if not inputs:
        raise TypeError(f"{function.name}() takes no arguments that have no default, and has no ufunc")
    outputs = [
        operand(
            f"out_{number}" if len(results) > 1 else "out",
            f"result {number}" if len(results) > 1 else "its result",
            type_,
            is_new=False,
        )
        for number, type_ in enumerate(results)
    ]
    return inputs, outputs
