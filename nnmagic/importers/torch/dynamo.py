"""Compile the graphs of torch.compile: AOTAutograd makes them functional, and derives their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from nnmagic.importers.torch.convention import run_flat
from nnmagic.importers.torch.decompositions import decompositions
from nnmagic.importers.torch.errors import TorchError
from nnmagic.importers.torch.formulas import multilabel_margin_loss
from nnmagic.importers.torch.operators import load_operators
from nnmagic.importers.torch.programs import TorchProgram, import_graph
from nnmagic.importers.torch.tensors import dim_of, expression_of

if TYPE_CHECKING:
    from torch.fx import GraphModule


def compile_graph(
    graph: GraphModule, example_inputs: Sequence[Any], build: Callable[[TorchProgram], Callable[..., Any]]
) -> Callable[..., Any]:
    """Return what runs a graph of Dynamo; ``build`` compiles a program."""
    import torch
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    load_operators()
    for node in graph.graph.nodes:
        if node.target is torch.nn.functional.multilabel_margin_loss:
            node.target = multilabel_margin_loss
    graph.recompile()

    def compile_functional(functional: GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
        with unset_fake_temporarily():  # constants of the graph are no traced tensors
            return make_boxed_func(_OfSizes(functional, build))  # type: ignore[no-any-return]

    backend = aot_autograd(
        fw_compiler=compile_functional,
        bw_compiler=compile_functional,
        inference_compiler=compile_functional,
        decompositions=decompositions(),
    )
    return backend(graph, list(example_inputs))  # type: ignore[no-any-return]


class _OfSizes:
    """A functional graph, which is compiled anew for sizes that differ from those of its trace.

    Dynamo guards the sizes of arguments, but not that of the memory that some of them share, which
    AOTAutograd passes instead of them, nor where in its memory an argument begins, which `as_strided` reads.
    Where operators need sizes that are open in the trace, the graph is compiled for those of each call.
    """

    def __init__(self, graph: GraphModule, build: Callable[[TorchProgram], Callable[..., Any]]) -> None:
        from torch.fx import GraphModule

        self._build = build
        self._graph = GraphModule(graph, deepcopy(graph.graph))
        self._traced = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]
        self._compiled: dict[tuple[Any, ...], tuple[TorchProgram, Callable[..., Any]]] = {}
        #: The arguments whose storages are read, and where they began in these when the graph was traced.
        self._storages: list[int] = []
        self._offsets: list[Any] = []
        self._refusal: TorchError | None = None
        try:
            self._compile((), graph)
        except TorchError as error:
            if not any(map(_is_open, self._traced)):
                raise
            self._refusal = error

    def _compile(self, sizes: tuple[Any, ...], graph: GraphModule) -> None:
        program = import_graph(graph)
        self._compiled[sizes] = program, self._build(program)
        self._storages = [
            program_input.value for program_input in program.inputs if program_input.kind == "storage"
        ]
        self._offsets = [self._traced[number].storage_offset() for number in self._storages]

    def __call__(self, *args: Any) -> list[Any]:
        offsets = [args[number].storage_offset() for number in self._storages]
        if () in self._compiled and not any(map(_is_other, self._offsets, offsets)):
            try:
                return run_flat(*self._compiled[()], args)
            except ValueError:
                if not any(map(_differ_in_size, self._traced, args)):
                    raise
        sizes = (*(getattr(arg, "shape", arg) for arg in args), *offsets)
        if sizes not in self._compiled:
            self._compile(sizes, self._trace(args))
        return run_flat(*self._compiled[sizes], args)

    def _trace(self, args: Sequence[Any]) -> GraphModule:
        """Return the graph as traced for the sizes of arguments."""
        from torch._subclasses import FakeTensorMode
        from torch._subclasses.fake_tensor import DynamicOutputShapeException
        from torch.fx import GraphModule
        from torch.fx.passes.fake_tensor_prop import FakeTensorProp

        graph = GraphModule(self._graph, deepcopy(self._graph.graph))
        try:
            FakeTensorProp(graph, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*args)
        except DynamicOutputShapeException:  # the sizes of the arguments are not all that is open
            if self._refusal is None:
                raise
            raise self._refusal from None
        return graph


def _differ_in_size(traced: Any, given: Any) -> bool:
    """Return whether a size of a tensor was known when the graph was traced, and is another one now."""
    return any(map(_is_other, getattr(traced, "shape", ()), getattr(given, "shape", ())))


def _is_open(traced: Any) -> bool:
    """Return whether an argument is, or has, a size that was not known when the graph was traced."""
    return any(not isinstance(expression_of(size), int) for size in getattr(traced, "shape", (traced,)))


def _is_other(traced: Any, now: int) -> bool:
    """Return whether a size was known when the graph was traced, and is another one now."""
    return isinstance(dim := dim_of(traced, {}), int) and dim != now
