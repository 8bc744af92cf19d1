"""Write kernels that call the C functions of NumPy's generators."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import relax, te, tirx

from nnmagic.engine.relax.legalize.extern_loops import COPIES_FIRST
from nnmagic.engine.relax.legalize.registry import OPAQUE, OpCall, Value
from nnmagic.engine.relax.legalize.types import Tensor, Tensors
from nnmagic.engine.relax.runtime.numpy_random import PREFIX
from nnmagic.engine.relax.tir.builders import as_expr, as_index, dtype_of, loop, product, sequence
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt

WORDS = 6


def int64(value: Index) -> PrimExpr:
    """Return an index as a 64-bit integer."""
    return as_expr(value).astype("int64") if not isinstance(value, int) else as_expr(value)


def address(buffer: Buffer, at: Sequence[Index] | None = None) -> PrimExpr:
    """Return the address of an element; by default of the first."""
    indices = [0] * len(buffer.shape) if at is None else at
    return tirx.address_of(tirx.BufferLoad(buffer, [as_expr(index) for index in indices]))


def call_function(dtype: str, name: str, *arguments: PrimExpr) -> PrimExpr:
    """Return a call of a C function that gives a number."""
    return tirx.call_extern(dtype, f"{PREFIX}{name}", *arguments)


def run(name: str, *arguments: PrimExpr) -> Stmt:
    """Return a statement that calls a C function."""
    return tirx.Evaluate(call_function("void", name, *arguments))


def load(buffer: Buffer, *at: Index) -> PrimExpr:
    """Return an element of a buffer."""
    return tirx.BufferLoad(buffer, [as_expr(index) for index in at])


def store(buffer: Buffer, value: PrimExpr, *at: Index) -> Stmt:
    """Return a statement that stores an element."""
    converted = value if dtype_of(buffer) == dtype_of(value) else value.astype(dtype_of(buffer))
    return tirx.BufferStore(buffer, converted, [as_expr(index) for index in at])


def each_element(shape: Sequence[Extent], body: Callable[[list[PrimExpr]], Stmt]) -> Stmt:
    """Build loops over the elements of a shape, in order."""

    def open_loops(at: list[PrimExpr]) -> Stmt:
        if len(at) == len(shape):
            return body(at)
        return loop("i", shape[len(at)], lambda index: open_loops([*at, index]))

    return open_loops([])


def element(parameter: Buffer, at: Sequence[PrimExpr]) -> PrimExpr:
    """Return what a parameter is for an element: it is one number, or has the shape of the result."""
    return load(parameter, *(at if len(parameter.shape) else ()))


#: Returns the statements of a draw: of the address of the state, the parameters, the numbers and workspaces.
_Body = Callable[[PrimExpr, Sequence[Buffer], Buffer, Sequence[Buffer]], Sequence[Stmt]]


def kernel(
    call: OpCall, body: _Body, work: Callable[..., Sequence[tuple[Extent, str]]] = lambda *_: ()
) -> Value:
    """Return the state after a draw, and the numbers; ``work`` gives the sizes of workspaces for shapes."""
    state, like, parameters = call.args
    dtype = str(like.ty.dtype.dtype)
    shape = list(like.ty.shape.values)

    def compute(state: Tensor, *rest: Tensor) -> Tensors:
        *inputs, dims = rest
        sizes = [as_index(dim) for dim in dims]
        spaces = work(sizes, [[as_index(dim) for dim in buffer.shape] for buffer in inputs])

        def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            after, numbers, *workspaces = outs
            copy = loop("word", WORDS, lambda word: store(after, load(ins[0], word), word))
            return sequence([copy, *body(address(after), ins[1:], numbers, workspaces)])

        shapes = [[WORDS], sizes, *([size] for size, _ in spaces)]
        dtypes = ["uint64", dtype, *(buffer for _, buffer in spaces)]
        return te.extern(shapes, [state, *inputs], emit, dtype=dtypes, name="random_pcg64")

    attrs = {"op_pattern": OPAQUE, COPIES_FIRST: 1}
    parts = call.emit(call.te(compute, state, *parameters, relax.ShapeExpr(shape), primfunc_attrs=attrs))
    return relax.Tuple([call.emit(relax.TupleGetItem(parts, number)) for number in (0, 1)])


def sizes_of(buffer: Buffer) -> list[Extent]:
    """Return the sizes of a buffer."""
    return [as_index(dim) for dim in buffer.shape]


def row_count(out: Buffer) -> tuple[Extent, Extent]:
    """Return the number of rows, and the length of each."""
    *rows, size = sizes_of(out)
    return product(rows), size
