"""Compile AOT programs to C functions: LLVM's text that needs libm and libc alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import ir, tirx

from nnmagic.engine import engine_error
from nnmagic.engine.relax.codegen.aot.bodies.ends import ASK
from nnmagic.engine.relax.codegen.aot.entry import emit_plain_entry, emit_workspace_size
from nnmagic.engine.relax.codegen.aot.functions import emit_functions, emit_support, function_variables
from nnmagic.engine.relax.codegen.aot.program import ShapeCheck
from nnmagic.engine.relax.codegen.aot.size_text import size_to_json
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.codegen.build import compile_programs
from nnmagic.engine.relax.codegen.c.entry_code import (
    KERNEL,
    NEEDED,
    PLAIN_ENTRY,
    RUN,
    STEPS,
    CArgument,
    EntryCode,
)
from nnmagic.engine.relax.codegen.c.llvm_linking import join_modules, undefined_functions
from nnmagic.engine.relax.codegen.c.runtime_code import runtime
from nnmagic.engine.relax.codegen.c.target_code import adapt
from nnmagic.engine.relax.codegen.numpy_random_stubs import own_functions
from nnmagic.engine.relax.codegen.object_code import KERNEL_PREFIX, ObjectCode, load_llvm
from nnmagic.engine.relax.runtime import lapack, numpy_random
from nnmagic.engine.relax.runtime.callbacks import POLL, SHAPES_FIT_NATIVE
from nnmagic.engine.relax.runtime.native_entry import ENTRY
from nnmagic.engine.relax.runtime.sizes import size_source
from nnmagic.engine.relax.tir.builders import static_int
from nnmagic.engine.relax.tir.visitors import rewrite

#: What a program calls of Python, as LLVM's text names it.
_PYTHON = re.compile(r"@\.tvm_func\.([\w.]+) =")

#: C's functions that machine code may call; those of mathematics end with "f" for float, too.
_MEMORY = frozenset(["malloc", "free", "aligned_alloc", "memcpy", "memmove", "memset"])
_MATHEMATICS = frozenset(
    """acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 exp10 expm1 frexp ilogb
    ldexp log log10 log1p log2 logb modf scalbn cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor
    nearbyint rint lrint llrint round lround llround trunc fmod remainder copysign nextafter fdim fmax fmin
    fma""".split()  # noqa: SIM905 - a list of words
)

_POINTER = ir.PointerType(ir.PrimType("int8"))

_KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int
    long register restrict return short signed sizeof static struct switch typedef union unsigned void
    volatile while bool true false class new delete this template typename namespace operator private public
    try catch throw int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t host NULL EOF
    errno stdin stdout stderr assert""".split()  # noqa: SIM905 - a list of words
)


@dataclass(frozen=True, slots=True)
class CFunction:
    """A function of C.

    name: its symbol. title: its name in errors. arguments: in C's order. messages: what its failures say.
    parallel: whether it can use threads of a host. parts: TVM's modules. own: the code of its entry.
    """

    name: str
    title: str
    arguments: Sequence[CArgument]
    messages: Sequence[str]
    parallel: bool
    parts: Sequence[str]
    own: str


def compile_c_function(
    program: AotProgram,
    name: str,
    title: str,
    names: Sequence[str],
    destinations: Mapping[int, tuple[int, bool]],
    messages: Sequence[str],
    target: tvm.target.Target,
    opt_level: int,
    *,
    threads: bool,
) -> CFunction:
    """Compile a program.

    Args:
        program: the program.
        name: the symbol of the function.
        title: its name in errors.
        names: those of its parameters.
        destinations: the parameters that it may change, with the numbers of the results that they become, and
            whether the program reads them.
        messages: what its failures say, by number.
        target: the CPU.
        opt_level: 0 to 3.
        threads: whether it may use threads of its host.

    Raises EngineError for a program that needs more than C's libraries.

    """
    _refuse_checks(title, program)
    arguments = _arguments(program, names, destinations)
    code = EntryCode(name, program, arguments, messages, wide=_is_wide(target))

    def emit(
        programs: Mapping[str, AotProgram], target: tvm.target.Target, _opt_level: int
    ) -> tuple[list[tuple[Any, tirx.PrimFunc]], list[tuple[Any, tirx.PrimFunc]]]:
        del programs
        variables = function_variables(program, ENTRY)
        with target if opt_level else nullcontext():
            functions = list(emit_functions(program, variables))
            functions.append((ir.GlobalVar(NEEDED), emit_workspace_size(program)))
            functions.append((ir.GlobalVar(PLAIN_ENTRY), emit_plain_entry(program, variables)))
            functions.append((ir.GlobalVar(RUN), _run_steps(code)))
        unasked = [] if any(each.parallel is not None for each in program.functions) else [ASK]
        functions[:0] = (pair for pair in emit_support([program]) if pair[0] not in unasked)
        return [(var, _without_python(function, unasked)) for var, function in functions], []

    _, compiled, _ = compile_programs({ENTRY: program}, target, opt_level, emit)
    modules = [llvm.module.inspect_source("ll") for llvm in compiled]
    _refuse_libraries(title, modules)
    parallel = threads and any("@__TVMBackendParallelLaunch" in llvm for llvm in modules)
    modules = [llvm.replace(f"@{KERNEL_PREFIX}", f"@{name}.kernel_") for llvm in modules]
    return CFunction(name, title, arguments, messages, parallel, modules, code.text(parallel=parallel))


def _run_steps(code: EntryCode) -> tirx.PrimFunc:
    """Return the function that a C function calls: LLVM puts the steps into it, and the program into them."""
    params = [tirx.Var(each.name, _c_type(each)) for each in code.arguments]
    params = [tirx.Var("host", _POINTER), *params, tirx.Var("code", _POINTER)]
    text = code.steps().replace(f"@{code.name}.{KERNEL}", f"@{KERNEL_PREFIX}")
    call = tirx.Evaluate(tirx.call_extern("void", f"{code.name}.{STEPS}", *params))
    body = tirx.AttrStmt("default", "pragma_import_llvm", ir.StringImm(text), call)
    return tirx.PrimFunc(params, body, ir.PrimType("int32"))


def _c_type(argument: CArgument) -> ir.Type:
    if argument.is_pointer:
        return _POINTER
    bits = {"bool": "int8", "float16": "int16", "bfloat16": "int16"}
    return ir.PrimType(bits.get(argument.dtype, argument.dtype))


def _is_wide(target: tvm.target.Target) -> bool:
    return not str(target.attrs.get("mtriple", "")).startswith("wasm32")


def link(functions: Sequence[CFunction], more: str = "") -> ObjectCode:
    """Return the object code of functions, and of LLVM's text that calls them."""
    modules = [llvm for function in functions for llvm in function.parts]
    shared = runtime(parallel=any(function.parallel for function in functions))
    entries = shared + "\n".join(function.own for function in functions) + more
    text = join_modules([*modules, *own_functions(modules)], entries)
    for name in undefined_functions(text):
        if name not in _MEMORY and not {name, name.removesuffix("f")} & _MATHEMATICS:
            what = ", ".join(f"@{function.title}" for function in functions)
            raise engine_error(f"{what} cannot become C: {name} is in neither libm nor libc")
    return load_llvm(adapt(text))


def _without_python(function: tirx.PrimFunc, unasked: Sequence[ir.GlobalVar]) -> tirx.PrimFunc:
    """Return a function that does not ask to be stopped, and refuses shapes that it would ask about.

    ``unasked`` are functions that would only ask whether to stop.
    """
    answers = {POLL: 0, SHAPES_FIT_NATIVE: 1}
    packed = tvm.ir.Op.get("tirx.tvm_call_packed")

    def answer(call: tvm.ir.Call) -> Any:
        if call.op in unasked:
            return tirx.const(0, "int32")
        if call.op != packed or (name := str(call.args[0].value)) not in answers:
            return call
        return tirx.const(answers[name], "int32")

    return rewrite(function, [(tvm.ir.Call, answer)])


def _refuse_checks(name: str, program: AotProgram) -> None:
    """Raise EngineError where only Python knows whether sizes fit."""
    for function in (program.entry, *program.functions):
        for step in function.steps():
            if isinstance(step, ShapeCheck) and static_int(step.fit) == 0:
                operator = json.loads(step.key)[0]
                reason = f"only Python knows whether the sizes of a call fit `{operator}`"
                raise engine_error(
                    f"@{name} cannot become C: {reason}", hint="give the parameters sizes that are numbers"
                )


def _refuse_libraries(name: str, modules: Sequence[str]) -> None:
    """Raise EngineError for what only NumPy, SciPy or Python compute."""
    called = {function for llvm in modules for function in undefined_functions(llvm)}
    defined = {
        symbol for llvm in modules for symbol in re.findall(r"^define [^@]*@([\w.]+)\(", llvm, re.MULTILINE)
    }
    for symbol in sorted(called - defined):
        if symbol.startswith(lapack.PREFIX):
            message = f"@{name} cannot become C: it calls LAPACK's {symbol.removeprefix(lapack.PREFIX)}"
            raise engine_error(message, hint="pass the factors or the solution as a parameter")
        if symbol.startswith(numpy_random.PREFIX) and not own_functions(modules, symbol):
            drawn = symbol.removeprefix(numpy_random.PREFIX)
            message = f"@{name} cannot become C: NumPy's own library draws {drawn}"
            raise engine_error(
                message, hint="draw by rng.random() or rng.uniform(a, b), or pass the numbers as a parameter"
            )
    for llvm in modules:
        for symbol in _PYTHON.findall(llvm):
            message = f"@{name} cannot become C: it calls {symbol}, which is Python's or TVM's"
            raise engine_error(message, hint="leave out what prints, calls back or sorts")


# Arguments


class _Names:
    """Gives C names, each once."""

    def __init__(self) -> None:
        self._taken = set(_KEYWORDS)

    def new(self, wanted: str) -> str:
        name = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "_"
        name = f"_{name}" if name[0].isdigit() else name
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _arguments(
    program: AotProgram, names: Sequence[str], destinations: Mapping[int, tuple[int, bool]]
) -> list[CArgument]:
    """Return the arguments: parameters, each with the sizes that it has first, then results."""
    entry, taken = program.entry, _Names()
    sources = [program.source_of(dim) for dim in entry.dims]
    own = [taken.new(name) for name in names]
    sizes = [
        own[parameter] if axis < 0 else taken.new(dim.name)
        for dim, (parameter, axis) in zip(entry.dims, sources, strict=True)
    ]
    shape_of = _shape_text(program, sizes)
    arguments = []
    for number, array in enumerate(program.parameters):
        shape: tuple[str, ...] | None = shape_of(array.shape)
        result, role = None, "in"
        if number in destinations:
            result, reads = destinations[number]
            is_same = entry.changed.get(result) == number or not reads or number in program.unread
            role = ("inout" if reads else "out") if is_same else "copied"
        elif not array.shape:
            shape = None
        arguments.append(CArgument(own[number], array.dtype, shape, role, parameter=number, result=result))
        arguments += [
            CArgument(sizes[dim], "int64", None, "size", number=dim)
            for dim, source in enumerate(sources)
            if source[0] == number and source[1] >= 0
        ]
    arrays = entry.all_results or entry.results
    others = [
        number for number in range(len(arrays)) if number not in {each for each, _ in destinations.values()}
    ]
    for position, number in enumerate(others):
        name = taken.new("result" if len(others) == 1 else f"result{position}")
        array = arrays[number]
        if number not in entry.left:
            arguments.append(CArgument(name, array.dtype, shape_of(array.shape), "out", result=number))
            continue
        shape = tuple(f"{name}_shape[{axis}]" for axis in range(len(array.shape)))
        arguments.append(CArgument(name, array.dtype, shape, "made", result=number))
        arguments.append(CArgument(f"{name}_shape", "int64", (str(len(shape)),), "made_shape"))
    return arguments


def _shape_text(program: AotProgram, sizes: Sequence[str]) -> Callable[[Sequence[Any]], tuple[str, ...]]:
    def text(shape: Sequence[Any]) -> tuple[str, ...]:
        sources = [size_source(size_to_json(size, program.entry.dims)) for size in shape]
        return tuple(
            re.sub(r"\bd([0-9]+)\b", lambda found: sizes[int(found[1])], source) for source in sources
        )

    return text
