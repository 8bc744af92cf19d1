"""Compile the graphs of torch.compile: AOTAutograd makes them functional, and derives their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nnmagic.importers.torch.convention import run_flat
from nnmagic.importers.torch.decompositions import decompositions
from nnmagic.importers.torch.operators import load_operators
from nnmagic.importers.torch.programs import Program, import_graph

if TYPE_CHECKING:
    from torch.fx import GraphModule


def compile_graph(
    graph: GraphModule, example_inputs: Sequence[Any], build: Callable[[Program], Callable[..., Any]]
) -> Callable[..., Any]:
    """Return what runs a graph of Dynamo; ``build`` compiles a program."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.nn.attention import SDPBackend, sdpa_kernel

    load_operators()

    def compile_functional(functional: GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
        with unset_fake_temporarily():  # constants of the graph are no traced tensors
            program = import_graph(functional)
        run = build(program)
        return make_boxed_func(lambda *args: run_flat(program, run, args))  # type: ignore[no-any-return]

    backend = aot_autograd(
        fw_compiler=compile_functional,
        bw_compiler=compile_functional,
        inference_compiler=compile_functional,
        decompositions=decompositions(),
    )
    with sdpa_kernel(SDPBackend.MATH):  # the other kernels of attention have no decomposition
        return backend(graph, list(example_inputs))  # type: ignore[no-any-return]
