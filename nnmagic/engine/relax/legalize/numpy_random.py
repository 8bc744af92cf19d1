"""Legalize the random numbers of NumPy's generator: kernels that call NumPy's own functions for each number.

A kernel copies the state first, and the functions change the copy. What NumPy writes in Python around these
functions, such as how it shuffles, is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.legalize.extern_loops import COPIES_FIRST, grid
from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Value
from nnmagic.engine.relax.legalize.types import Tensor, Tensors
from nnmagic.engine.relax.runtime.numpy_random import PREFIX
from nnmagic.engine.relax.tir.builders import as_expr, as_index, dtype_of, loop, maximum, product, sequence
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt
from nnmagic.relay.expr import Constant, Tuple

_WORDS = 6

#: The functions of single numbers whose name in C is not that of the method.
_NAMES = {"random": "standard_uniform", "standard_exponential inv": "standard_exponential_inv"}


def _int(value: Index) -> PrimExpr:
    return as_expr(value).astype("int64") if not isinstance(value, int) else as_expr(value)


def _address(buffer: Buffer, at: Sequence[Index] | None = None) -> PrimExpr:
    indices = [0] * len(buffer.shape) if at is None else at
    return tirx.address_of(tirx.BufferLoad(buffer, [as_expr(index) for index in indices]))


def _call(dtype: str, name: str, *arguments: PrimExpr) -> PrimExpr:
    return tirx.call_extern(dtype, f"{PREFIX}{name}", *arguments)


def _run(name: str, *arguments: PrimExpr) -> Stmt:
    return tirx.Evaluate(_call("void", name, *arguments))


def _load(buffer: Buffer, *at: Index) -> PrimExpr:
    return tirx.BufferLoad(buffer, [as_expr(index) for index in at])


def _store(buffer: Buffer, value: PrimExpr, *at: Index) -> Stmt:
    converted = value if dtype_of(buffer) == dtype_of(value) else value.astype(dtype_of(buffer))
    return tirx.BufferStore(buffer, converted, [as_expr(index) for index in at])


def _each(shape: Sequence[Extent], body: Callable[[list[PrimExpr]], Stmt]) -> Stmt:
    """Build loops over the elements of a shape, in order."""

    def open_loops(at: list[PrimExpr]) -> Stmt:
        if len(at) == len(shape):
            return body(at)
        return loop("i", shape[len(at)], lambda index: open_loops([*at, index]))

    return open_loops([])


def _element(parameter: Buffer, at: Sequence[PrimExpr]) -> PrimExpr:
    """Return what a parameter is for an element: it is one number, or has the shape of the result."""
    return _load(parameter, *(at if len(parameter.shape) else ()))


#: Returns the statements of a draw: of the address of the state, the parameters, the numbers and workspaces.
_Body = Callable[[PrimExpr, Sequence[Buffer], Buffer, Sequence[Buffer]], Sequence[Stmt]]


def _kernel(
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
            copy = loop("word", _WORDS, lambda word: _store(after, _load(ins[0], word), word))
            return sequence([copy, *body(_address(after), ins[1:], numbers, workspaces)])

        shapes = [[_WORDS], sizes, *([size] for size, _ in spaces)]
        dtypes = ["uint64", dtype, *(buffer for _, buffer in spaces)]
        return te.extern(shapes, [state, *inputs], emit, dtype=dtypes, name="random_pcg64")

    attrs = {"op_pattern": OPAQUE, COPIES_FIRST: 1}
    parts = call.emit(call.te(compute, state, *parameters, relax.ShapeExpr(shape), primfunc_attrs=attrs))
    return relax.Tuple([call.emit(relax.TupleGetItem(parts, number)) for number in (0, 1)])


def _sizes(buffer: Buffer) -> list[Extent]:
    return [as_index(dim) for dim in buffer.shape]


# -- numbers ---------------------------------------------------------------------------------------------


def _draw(call: OpCall) -> Value:
    function = str(call.attrs["function"])
    return _BODIES.get(function, _draw_elements)(call, function)


def _draw_without_parameters(call: OpCall, function: str) -> Value:
    """Fill an array with numbers that have no parameters."""
    name = _NAMES.get(function, function)

    def body(state: PrimExpr, _given: Sequence[Buffer], out: Buffer, _work: Sequence[Buffer]) -> list[Stmt]:
        dtype = dtype_of(out)
        suffix = "_f" if dtype == "float32" else ""
        if not len(out.shape) and not function.endswith("inv"):
            return [_store(out, _call(dtype, f"{name}{suffix}", state))]
        return [_run(f"{name}_fill{suffix}", state, _int(product(_sizes(out))), _address(out))]

    return _kernel(call, body)


def _draw_elements(call: OpCall, function: str) -> Value:
    """Draw each number by a function of its parameters."""

    def body(state: PrimExpr, given: Sequence[Buffer], out: Buffer, _work: Sequence[Buffer]) -> list[Stmt]:
        dtype = dtype_of(out)
        name = f"{function}_f" if dtype == "float32" else function

        def draw(at: list[PrimExpr]) -> Stmt:
            parameters = [_element(each, at) for each in given]
            if function == "uniform":  # NumPy's function takes the width of the interval
                parameters[1] = parameters[1] - parameters[0]
            if function == "binomial":
                parameters.reverse()
            return _store(out, _call(dtype, name, state, *parameters), *at)

        return [_each(_sizes(out), draw)]

    return _kernel(call, body)


_FALSE = tirx.const(0, "int64")


def _draw_integers(call: OpCall, _function: str) -> Value:
    """Draw integers between two, which are among them; narrow ones use all bits of what is drawn."""
    dtype = str(call.args[1].ty.dtype.dtype)
    word = "bool" if dtype == "bool" else f"uint{dtype.removeprefix('u').removeprefix('int')}"
    one_range = not any(len(parameter.ty.shape.values) for parameter in call.args[2])

    def bits(value: PrimExpr) -> PrimExpr:
        """Return the bits of a number of the dtype in an integer of 64."""
        return value.astype("int64" if word in ("bool", "uint64") else word).astype("int64")

    def body(state: PrimExpr, given: Sequence[Buffer], out: Buffer, work: Sequence[Buffer]) -> list[Stmt]:
        low, high = given
        if one_range:
            first = bits(_load(low))
            width = bits((bits(_load(high)) - first).astype("int64"))
            count = _int(product(_sizes(out)))
            return [_run(f"bounded_{word}_fill", state, first, width, count, _FALSE, _address(out))]

        def draw(at: list[PrimExpr]) -> Stmt:
            first = bits(_element(low, at))
            width = bits(_element(high, at)) - first
            left = () if word == "uint64" else (_address(work[0]), _address(work[0], [1]))
            name = "bounded_uint64" if word == "uint64" else f"buffered_bounded_{word}"
            drawn = _call("int64", name, state, first, width, _FALSE, _FALSE, *left)
            return _store(out, drawn, *at)

        begin = [_store(work[0], tirx.const(0, "int32"), number) for number in (0, 1)]
        return [*begin, _each(_sizes(out), draw)]

    return _kernel(call, body, lambda *_: () if one_range else [(2, "int32")])


# -- orders ----------------------------------------------------------------------------------------------


def _swap(buffer: Buffer, row: Sequence[Index], one: PrimExpr, other: PrimExpr) -> list[Stmt]:
    saved = tirx.Var("kept", dtype_of(buffer))
    return [
        tirx.Bind(saved, _load(buffer, *row, one)),
        _store(buffer, _load(buffer, *row, other), *row, one),
        _store(buffer, saved, *row, other),
    ]


def _shuffle(
    state: PrimExpr, buffer: Buffer, row: Sequence[Index], size: Extent, least: Index, *, masked: bool
) -> Stmt:
    """Exchange each element from the last down to the one at ``least`` with one before it, or itself.

    ``masked``: by the method of `random_interval`, and not by Lemire's (2019).
    """

    def exchange(step: PrimExpr) -> Stmt:
        last, other = tirx.Var("last", "int64"), tirx.Var("other", "int64")
        zero = _int(0)
        drawn = (
            _call("int64", "interval", state, last)
            if masked
            else _call("int64", "bounded_uint64", state, zero, last, _FALSE, _FALSE)
        )
        steps = [tirx.Bind(last, _int(size) - 1 - step), tirx.Bind(other, drawn)]
        return sequence([*steps, *_swap(buffer, row, last, other)])

    count = tirx.max(_int(size) - _int(least), _int(0))
    var = tirx.Var("step", "int64")
    return tirx.For(var, _int(0), count, tirx.ForKind.SERIAL, exchange(var))


def _draw_order(call: OpCall, _function: str) -> Value:
    def body(state: PrimExpr, _given: Sequence[Buffer], out: Buffer, _work: Sequence[Buffer]) -> list[Stmt]:
        size = _sizes(out)[0]
        return [
            loop("i", size, lambda i: _store(out, i, i)),
            _shuffle(state, out, (), size, 1, masked=True),
        ]

    return _kernel(call, body)


def _draw_orders(call: OpCall, _function: str) -> Value:
    """Draw an order for each row."""

    def body(state: PrimExpr, _given: Sequence[Buffer], out: Buffer, _work: Sequence[Buffer]) -> list[Stmt]:
        rows, size = _sizes(out)

        def order(row: PrimExpr) -> Stmt:
            begin = loop("i", size, lambda i: _store(out, i, row, i))
            return sequence([begin, _shuffle(state, out, [row], size, 0, masked=True)])

        return [loop("row", rows, order)]

    return _kernel(call, body)


# -- choices and vectors ---------------------------------------------------------------------------------


def _build_statements(emit: Callable[[], None]) -> list[Stmt]:
    """Return the statements that a function writes by TVM's builder."""
    with IRBuilder() as builder:
        with T.seq_scope():
            emit()
        return [builder.get()]


def _register(dtype: str, value: PrimExpr) -> Buffer:
    register = T.buffer_proxy(T.alloc_buffer((1,), dtype, scope="local"))
    register[0] = value
    return register


#: How many elements there are at most to each that is chosen, where NumPy shuffles all of them; and the least
#: number of elements for which it does so.
_SHUFFLED = {"choice": 50, "choice unshuffled": 20}
_LEAST_SHUFFLED = 10000


def _draw_choice(call: OpCall, function: str) -> Value:
    """Draw different indices, by a shuffle of all, or by Floyd's algorithm with a table (Bentley 1987)."""
    probabilities = call.node.args[2]
    count = probabilities.fields[0] if isinstance(probabilities, Tuple) else None
    static_count = int(count.data.item()) if isinstance(count, Constant) else None
    ratio = _SHUFFLED[function]

    def work(sizes: list[Extent], _shapes: object) -> list[tuple[Extent, str]]:
        size = sizes[0]
        room = size * ratio if static_count is None else static_count if static_count > _LEAST_SHUFFLED else 1
        return [(maximum(room, 1), "int64"), (size * 3 + 2, "int64")]

    def body(
        state: PrimExpr, probabilities: Sequence[Buffer], out: Buffer, work: Sequence[Buffer]
    ) -> list[Stmt]:
        size = _int(_sizes(out)[0])

        def emit() -> None:
            population = T.bind(_load(probabilities[0]).astype("int64"))
            result, everything, table = map(T.buffer_proxy, (out, *work))
            whole = tirx.And(population > _LEAST_SHUFFLED, size > tirx.floordiv(population, _int(ratio)))
            with T.If(whole):
                with T.Then():
                    with T.serial(0, population) as i:
                        everything[i] = i
                    least = tirx.max(population - size, _int(1))
                    T.add_to_parent(_shuffle(state, work[0], (), population, least, masked=False))
                    with T.serial(0, size) as i:
                        result[i] = everything[population - size + i]
                with T.Else():
                    _floyd(state, result, table, size, population)
                    if function == "choice":
                        T.add_to_parent(_shuffle(state, out, (), size, 1, masked=False))

        return _build_statements(emit)

    return _kernel(call, body, work)


def _floyd(state: PrimExpr, result: Buffer, table: Buffer, size: PrimExpr, population: PrimExpr) -> None:
    """Emit Floyd's algorithm: each of the last elements, or, with its probability, one before it."""
    mask = _register("int64", (size.astype("float64") * tirx.const(1.2, "float64")).astype("int64"))
    for shift in (1, 2, 4, 8, 16, 32):
        mask[0] = tirx.bitwise_or(mask[0], mask[0] >> _int(shift))
    nothing = _int(-1)
    with T.serial(0, mask[0] + 1) as i:
        table[i] = nothing
    place, value = _register("int64", _int(0)), _register("int64", _int(0))
    with T.serial(0, size) as step:
        last = T.bind(population - size + step)
        value[0] = _call("int64", "bounded_uint64", state, _int(0), last, _FALSE, _FALSE)
        place[0] = tirx.bitwise_and(value[0], mask[0])
        with T.While(tirx.And(table[place[0]] != nothing, table[place[0]] != value[0])):
            place[0] = tirx.bitwise_and(place[0] + 1, mask[0])
        with T.If(table[place[0]] != nothing), T.Then():  # it was chosen before
            value[0] = last
            place[0] = tirx.bitwise_and(last, mask[0])
            with T.While(table[place[0]] != nothing):
                place[0] = tirx.bitwise_and(place[0] + 1, mask[0])
        table[place[0]] = value[0]
        result[step] = value[0]


def _emit_cumulative(p: Buffer, total: Buffer, size: PrimExpr) -> None:
    """Emit the cumulative sums of probabilities, divided by the last of them."""
    running = _register("float64", tirx.const(0, "float64"))
    with T.serial(0, size) as i:
        running[0] = running[0] + p[i]
        total[i] = running[0]
    with T.serial(0, size) as i:
        total[i] = total[i] / running[0]


def _emit_search(state: PrimExpr, total: Buffer, size: PrimExpr) -> PrimExpr:
    """Emit a draw, and the search for the first cumulative sum above it; return the index."""
    drawn = T.bind(_call("float64", "standard_uniform", state))
    low, high = _register("int64", _int(0)), _register("int64", size)
    with T.While(low[0] < high[0]):
        middle = T.bind((low[0] + high[0]) >> _int(1))
        with T.If(total[middle] <= drawn):
            with T.Then():
                low[0] = middle + 1
            with T.Else():
                high[0] = middle
    return tirx.min(low[0], size - 1)


def _draw_by_weights(call: OpCall, function: str) -> Value:
    """Draw indices with probabilities, which may repeat or not."""
    different = function == "weighted different"

    def work(_sizes: object, shapes: Sequence[Sequence[Extent]]) -> list[tuple[Extent, str]]:
        return [(maximum(shapes[0][0], 1), "float64")] * (1 + different)

    def body(state: PrimExpr, buffers: Sequence[Buffer], out: Buffer, work: Sequence[Buffer]) -> list[Stmt]:
        size = _int(_sizes(buffers[0])[0])

        def emit() -> None:
            total = T.buffer_proxy(work[0])
            if not different:
                _emit_cumulative(T.buffer_proxy(buffers[0]), total, size)
                with grid(_sizes(out)) as at:
                    T.buffer_store(out, _emit_search(state, total, size), at)
                return
            p, result = T.buffer_proxy(work[1]), T.buffer_proxy(out)
            with T.serial(0, size) as i:
                p[i] = buffers[0][i]
            low_index = _register("int64", _int(0))
            wanted = _int(_sizes(out)[0])
            with T.While(low_index[0] < wanted):
                _emit_cumulative(p, total, size)
                left = T.bind(wanted - low_index[0])
                with T.serial(0, left):
                    index = T.bind(_emit_search(state, total, size))
                    with T.If(p[index] != tirx.const(0, "float64")), T.Then():
                        result[low_index[0]] = index
                        low_index[0] = low_index[0] + 1
                        p[index] = tirx.const(0, "float64")

        return _build_statements(emit)

    return _kernel(call, body, work)


def _rows(out: Buffer) -> tuple[Extent, Extent]:
    *rows, size = _sizes(out)
    return product(rows), size


def _draw_multinomial(call: OpCall, _function: str) -> Value:
    def body(state: PrimExpr, given: Sequence[Buffer], out: Buffer, _work: Sequence[Buffer]) -> list[Stmt]:
        n, pvals = given
        *rows, size = _sizes(out)

        def draw(at: list[PrimExpr]) -> Stmt:
            clear = loop("k", size, lambda k: _store(out, _int(0), *at, k))
            addresses = _address(out, [*at, 0]), _address(pvals)
            return sequence([clear, _run("multinomial", state, _load(n), *addresses, _int(size))])

        return [_each(rows, draw)]

    return _kernel(call, body)


def _draw_colors(call: OpCall, function: str) -> Value:
    """Draw counts of the multivariate hypergeometric distribution."""
    name = function.replace(" ", "_")

    def body(state: PrimExpr, given: Sequence[Buffer], out: Buffer, _work: Sequence[Buffer]) -> list[Stmt]:
        colors, sample = given
        rows, size = _rows(out)

        def emit() -> None:
            total = _register("int64", _int(0))
            with T.serial(0, _int(size)) as i:
                total[0] = total[0] + colors[i]
            with grid(_sizes(out)) as at:
                T.buffer_store(out, _int(0), at)
            arguments = (total[0], _int(size), _address(colors), _load(sample), _int(rows), _address(out))
            if name.endswith("count"):
                T.evaluate(_call("int64", name, state, *arguments))
            else:
                T.add_to_parent(_run(name, state, *arguments))

        return _build_statements(emit)

    return _kernel(call, body)


#: NumPy breaks a stick where all parameters of a Dirichlet distribution are less.
_SMALL_ALPHA = 0.1


def _draw_dirichlet(call: OpCall, _function: str) -> Value:
    def work(sizes: list[Extent], _shapes: object) -> list[tuple[Extent, str]]:
        return [(maximum(sizes[-1], 1), "float64")]

    def body(state: PrimExpr, given: Sequence[Buffer], out: Buffer, work: Sequence[Buffer]) -> list[Stmt]:
        (alpha,) = given
        *rows, size = _sizes(out)
        count, zero, one = _int(size), tirx.const(0, "float64"), tirx.const(1, "float64")

        def emit() -> None:
            sums = T.buffer_proxy(work[0])
            largest, total = _register("float64", zero), _register("float64", zero)
            with T.serial(0, count) as step:
                i = T.bind(count - 1 - step)
                largest[0] = tirx.max(largest[0], alpha[i])
                total[0] = total[0] + alpha[i]
                sums[i] = total[0]
            with T.If(largest[0] < tirx.const(_SMALL_ALPHA, "float64")):
                with T.Then(), grid(rows) as at:
                    remaining = _register("float64", one)
                    with T.serial(0, count) as i:
                        T.buffer_store(out, zero, [*at, i])
                    with T.If(tirx.And(total[0] > zero, count > 0)), T.Then():
                        ends = _register("int64", count - 1)
                        i = _register("int64", _int(0))
                        with T.While(i[0] < ends[0]):
                            part = T.bind(_call("float64", "beta", state, alpha[i[0]], sums[i[0] + 1]))
                            T.buffer_store(out, remaining[0] * part, [*at, i[0]])
                            remaining[0] = remaining[0] * (one - part)
                            with T.If(sums[i[0] + 1] <= zero), T.Then():
                                ends[0] = _int(0)
                            i[0] = i[0] + 1
                        T.buffer_store(out, remaining[0], [*at, count - 1])
                with T.Else(), grid(rows) as at:
                    running = _register("float64", zero)
                    with T.serial(0, count) as i:
                        drawn = T.bind(_call("float64", "standard_gamma", state, alpha[i]))
                        T.buffer_store(out, drawn, [*at, i])
                        running[0] = running[0] + drawn
                    inverse = T.bind(one / running[0])
                    with T.serial(0, count) as i:
                        T.buffer_store(out, _load(out, *at, i) * inverse, [*at, i])

        return _build_statements(emit)

    return _kernel(call, body, work)


_BODIES: dict[str, Callable[[OpCall, str], Value]] = {
    **dict.fromkeys(
        ("random", "standard_normal", "standard_exponential", "standard_exponential inv"),
        _draw_without_parameters,
    ),
    "integers": _draw_integers,
    "order": _draw_order,
    "orders": _draw_orders,
    **dict.fromkeys(_SHUFFLED, _draw_choice),
    **dict.fromkeys(("weighted", "weighted different"), _draw_by_weights),
    "multinomial": _draw_multinomial,
    **dict.fromkeys(
        (f"multivariate_hypergeometric {method}" for method in ("marginals", "count")), _draw_colors
    ),
    "dirichlet": _draw_dirichlet,
}


def _seed(call: OpCall) -> Value:
    """Lower to NumPy's SeedSequence and the seeding of PCG64."""

    def compute(seed: Tensor) -> Tensor:
        def emit(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            return _run("seed", _address(outs[0]), _load(ins[0]).astype("int64"))

        return te.extern([[_WORDS]], [seed], emit, dtype=["uint64"], name="random_pcg64_seed")

    return call.te(compute, *call.args, primfunc_attrs={"op_pattern": OPAQUE})


RULES.update({"numpy.pcg64": _draw, "numpy.pcg64_seed": _seed})
