"""Call a program that Relay has built with NumPy arrays.

Relay's graph executor runs dataflow of static shapes; its virtual machine runs control flow, closures, data
types and dynamic shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir import diagnostics
from tvm.runtime.vm import VirtualMachine

from nnmagic.engine import engine_error
from nnmagic.engine.legacy_relay.target import resolve_target
from nnmagic.engine.legacy_relay.values import Constructors, as_array, as_tensor, crosses
from nnmagic.fork_safety import Lock
from nnmagic.relay.expr import Call, Constant, Expr, Function, OpRef, Tuple, TupleGetItem, Var
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.structure.tuple_trees import rebuild
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import TensorType, TupleType, Type

#: The texts that an executable can show: what went to TVM, its loops, machine code.
STAGES = ("relay", "tir", "llvm", "asm")

#: SimplifyExpr makes of ``add(x, x)``, where ``x`` is used again, what the next pass refuses.
_BROKEN_PASSES = ["SimplifyExpr"]

#: TVM's builders keep process-wide state, so one compilation runs at a time.
_COMPILING = Lock()

#: What a runtime takes and gives: one value a parameter, the result.
Run = Callable[[Sequence[Any]], Any]


class LegacyExecutable:
    """The machine code of ``@main`` of a module that Relay has built.

    A call takes one array (tuple, AdtValue) per parameter and returns new arrays. Several threads may call it
    at once. Raises TypeError for an array of a wrong dtype and ValueError for one of a wrong shape.
    """

    #: Nothing of what Relay builds is kept.
    artifact: None = None

    def __init__(
        self, module: Module, text: str, target: str | Mapping[str, object] | None, opt_level: int
    ) -> None:
        main = module.functions["main"]
        self._types = _types_that_cross(main)
        self._text = text
        self._kernels: list[Any] = []
        # A runtime holds the values of one call at a time: a call takes one that is idle, or starts another.
        self._idle: list[Run] = []
        with _COMPILING:
            resolved = resolve_target(target)
            with _refusals():
                program = relay.fromtext(text)
                config = self._recording()
                with tvm.transform.PassContext(opt_level, config=config, disabled_pass=_BROKEN_PASSES):
                    build = self._build_graph if _is_static_dataflow(module) else self._build_machine
                    self._start: Callable[[], Run] = build(module, program, resolved)

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Return the result for these arguments: an array, a tuple or an AdtValue."""
        try:
            run = self._idle.pop()
        except IndexError:
            with _COMPILING:
                run = self._start()
        try:
            result = run(arrays)
        except tvm.TVMError as error:  # a runtime that raised is not used again
            raise ValueError(_last_line(error)) from error
        self._idle.append(run)
        return result

    def stage(self, name: str) -> str:
        """Return the text of a stage: ``relay``, ``tir``, ``llvm`` or ``asm``. Raises KeyError for others."""
        if name not in STAGES:
            raise KeyError(f"the engine 'relay' has no stage {name!r}; it has {', '.join(STAGES)}")
        with _COMPILING:
            if name == "relay":
                return self._text
            if name == "tir":
                return "\n".join(kernel.script() for kernel in self._kernels)
            return str(self._library.get_source({"llvm": "ll", "asm": "asm"}[name]))

    def _recording(self) -> dict[str, object]:
        """Return the TVM setting that keeps each kernel as it is before code generation."""

        def record(kernel: Any, _module: Any, _context: Any) -> Any:
            self._kernels.append(kernel)
            return kernel

        return {"tir.add_lower_pass": [(3, tvm.tir.transform.prim_func_pass(record, opt_level=0))]}

    def _build_graph(self, _module: Module, program: Any, target: Any) -> Callable[[], Run]:
        factory = relay.build(program, target=target)
        self._library = factory.get_lib()
        parameters = [type_ for type_ in self._types[:-1] if isinstance(type_, TensorType)]
        result = self._types[-1]

        def start() -> Run:
            graph = graph_executor.GraphModule(factory["default"](tvm.cpu()))

            def run(arrays: Sequence[Any]) -> Any:
                for index, (array, type_) in enumerate(zip(arrays, parameters, strict=True)):
                    graph.set_input(index, as_tensor(array, type_))
                graph.run()
                outputs = (as_array(graph.get_output(index)) for index in range(graph.get_num_outputs()))
                return rebuild(result, outputs)

            return run

        return start

    def _build_machine(self, module: Module, program: Any, target: Any) -> Callable[[], Run]:
        constructors = Constructors.of(module, program)
        compiled = relay.vm.compile(program, target=target)
        self._library = compiled.lib
        *parameters, result = self._types

        def start() -> Run:
            machine = VirtualMachine(compiled, tvm.cpu())

            def run(arrays: Sequence[Any]) -> Any:
                values = [
                    constructors.to_runtime(array, type_)
                    for array, type_ in zip(arrays, parameters, strict=True)
                ]
                return constructors.from_runtime(machine.invoke("main", *values), result)

            return run

        return start


def _types_that_cross(main: Function) -> list[Type]:
    """Return the types of the parameters and the result. Raises EngineError for a type unknown to Python."""
    params = [var.checked_type or var.type_annotation for var in main.params]
    types = []
    for type_, node in zip([*params, main.ret_type], [*main.params, main.body], strict=True):
        if type_ is None or not crosses(type_):
            words = "untyped" if type_ is None else f"of type {type_text(type_)}"
            raise engine_error(f"a value {words} cannot go between Python and Relay", node.span)
        types.append(type_)
    return types


def _is_static_dataflow(module: Module) -> bool:
    """Return whether the graph executor can run it: one function of operators over static shapes."""
    main = module.functions["main"]
    return (
        len(module.functions) == 1
        and all(isinstance(var.checked_type, TensorType) for var in main.params)
        and all(_is_static(node) for node in post_order(main.body))
    )


def _is_static(node: Expr) -> bool:
    match node:
        case OpRef():
            return True
        case Var() | Constant() | Tuple() | TupleGetItem():
            return _has_known_shape(node.checked_type)
        case Call(op=OpRef()):
            return _has_known_shape(node.checked_type)
    return False


def _has_known_shape(type_: Type | None) -> bool:
    match type_:
        case TensorType(shape=shape):
            return all(isinstance(dim, int) for dim in shape)
        case TupleType(fields=fields):
            return all(map(_has_known_shape, fields))
    return False


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn TVM's exceptions, and what it would print to stderr, into EngineError."""
    messages: list[str] = []
    diagnostics.override_renderer(
        lambda context: messages.extend(diagnostic.message for diagnostic in context.diagnostics)
    )
    try:
        yield
    except Exception as error:  # TVM's operators are Python, too: they raise whatever Python raises
        reason = "; ".join(messages) or _last_line(error)
        raise engine_error(f"TVM's Relay cannot compile this program: {reason}") from error
    finally:
        diagnostics.override_renderer(None)


def _last_line(error: Exception) -> str:
    """Return TVM's message after its C++ stack trace."""
    return str(error).strip().rpartition("\n")[2].strip()
