"""Legalize the random numbers of NumPy's generator: kernels that call NumPy's own functions for each number.

A kernel copies the state first, and the functions change the copy. What NumPy writes in Python around these
functions, such as how it shuffles, is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T  # noqa: N812 - TVM's own name for its builder

from nnmagic.engine.relax.legalize.extern_loops import grid
from nnmagic.engine.relax.legalize.numpy_random_kernels import (
    WORDS,
    address,
    call_function,
    each_element,
    element,
    int64,
    kernel,
    load,
    row_count,
    run,
    sizes_of,
    store,
)
from nnmagic.engine.relax.legalize.registry import OPAQUE, RULES, OpCall, Value
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.builders import dtype_of, loop, maximum, product, sequence
from nnmagic.engine.relax.tir.types import Buffer, Extent, Index, PrimExpr, Stmt
from nnmagic.relay.expr import Constant, Tuple

#: The functions of single numbers whose name in C is not that of the method.
_NAMES = {"random": "standard_uniform", "standard_exponential inv": "standard_exponential_inv"}


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
            return [store(out, call_function(dtype, f"{name}{suffix}", state))]
        return [run(f"{name}_fill{suffix}", state, int64(product(sizes_of(out))), address(out))]

    return kernel(call, body)


def _draw_elements(call: OpCall, function: str) -> Value:
    """Draw each number by a function of its parameters."""

    def body(state: PrimExpr, given: Sequence[Buffer], out: Buffer, _work: Sequence[Buffer]) -> list[Stmt]:
        dtype = dtype_of(out)
        name = f"{function}_f" if dtype == "float32" else function

        def draw(at: list[PrimExpr]) -> Stmt:
            parameters = [element(each, at) for each in given]
            if function == "uniform":  # NumPy's function takes the width of the interval
                parameters[1] = parameters[1] - parameters[0]
            if function == "binomial":
                parameters.reverse()
            return store(out, call_function(dtype, name, state, *parameters), *at)

        return [each_element(sizes_of(out), draw)]

    return kernel(call, body)


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
            first = bits(load(low))
            width = bits((bits(load(high)) - first).astype("int64"))
            count = int64(product(sizes_of(out)))
            return [run(f"bounded_{word}_fill", state, first, width, count, _FALSE, address(out))]

        def draw(at: list[PrimExpr]) -> Stmt:
            first = bits(element(low, at))
            width = bits(element(high, at)) - first
            left = () if word == "uint64" else (address(work[0]), address(work[0], [1]))
            name = "bounded_uint64" if word == "uint64" else f"buffered_bounded_{word}"
            drawn = call_function("int64", name, state, first, width, _FALSE, _FALSE, *left)
            return store(out, drawn, *at)

        begin = [store(work[0], tirx.const(0, "int32"), number) for number in (0, 1)]
        return [*begin, each_element(sizes_of(out), draw)]

    return kernel(call, body, lambda *_: () if one_range else [(2, "int32")])


# -- orders ----------------------------------------------------------------------------------------------


def _swap(buffer: Buffer, row: Sequence[Index], one: PrimExpr, other: PrimExpr) -> list[Stmt]:
    saved = tirx.Var("kept", dtype_of(buffer))
    return [
        tirx.Bind(saved, load(buffer, *row, one)),
        store(buffer, load(buffer, *row, other), *row, one),
        store(buffer, saved, *row, other),
    ]


def _shuffle(
    state: PrimExpr, buffer: Buffer, row: Sequence[Index], size: Extent, least: Index, *, masked: bool
) -> Stmt:
    """Exchange each element from the last down to the one at ``least`` with one before it, or itself.

    ``masked``: by the method of `random_interval`, and not by Lemire's (2019).
    """

    def exchange(step: PrimExpr) -> Stmt:
        last, other = tirx.Var("last", "int64"), tirx.Var("other", "int64")
        zero = int64(0)
        drawn = (
            call_function("int64", "interval", state, last)
            if masked
            else call_function("int64", "bounded_uint64", state, zero, last, _FALSE, _FALSE)
        )
        steps = [tirx.Bind(last, int64(size) - 1 - step), tirx.Bind(other, drawn)]
        return sequence([*steps, *_swap(buffer, row, last, other)])

    count = tirx.max(int64(size) - int64(least), int64(0))
    var = tirx.Var("step", "int64")
    return tirx.For(var, int64(0), count, tirx.ForKind.SERIAL, exchange(var))


def _draw_order(call: OpCall, _function: str) -> Value:
    def body(state: PrimExpr, _given: Sequence[Buffer], out: Buffer, _work: Sequence[Buffer]) -> list[Stmt]:
        size = sizes_of(out)[0]
        return [loop("i", size, lambda i: store(out, i, i)), _shuffle(state, out, (), size, 1, masked=True)]

    return kernel(call, body)


def _draw_orders(call: OpCall, _function: str) -> Value:
    """Draw an order for each row."""

    def body(state: PrimExpr, _given: Sequence[Buffer], out: Buffer, _work: Sequence[Buffer]) -> list[Stmt]:
        rows, size = sizes_of(out)

        def order(row: PrimExpr) -> Stmt:
            begin = loop("i", size, lambda i: store(out, i, row, i))
            return sequence([begin, _shuffle(state, out, [row], size, 0, masked=True)])

        return [loop("row", rows, order)]

    return kernel(call, body)


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
        size = int64(sizes_of(out)[0])

        def emit() -> None:
            population = T.bind(load(probabilities[0]).astype("int64"))
            result, everything, table = map(T.buffer_proxy, (out, *work))
            # The same choice of the algorithm as NumPy's: the other one would draw other numbers
            # from the state.
            whole = tirx.And(population > _LEAST_SHUFFLED, size > tirx.floordiv(population, int64(ratio)))
            with T.If(whole):
                with T.Then():
                    with T.serial(0, population) as i:
                        everything[i] = i
                    least = tirx.max(population - size, int64(1))
                    T.add_to_parent(_shuffle(state, work[0], (), population, least, masked=False))
                    with T.serial(0, size) as i:
                        result[i] = everything[population - size + i]
                with T.Else():
                    _floyd(state, result, table, size, population)
                    if function == "choice":
                        # Floyd's algorithm gives a random set, but not in a random order: the last
                        # element can only come late.
                        T.add_to_parent(_shuffle(state, out, (), size, 1, masked=False))

        return _build_statements(emit)

    return kernel(call, body, work)


def _floyd(state: PrimExpr, result: Buffer, table: Buffer, size: PrimExpr, population: PrimExpr) -> None:
    """Emit Floyd's algorithm: each of the last elements, or, with its probability, one before it."""
    # A set as NumPy's ``Generator.choice`` has it, by linear probing: at least 1.2 slots for each
    # element, a power of two. The shifts set all bits below the highest.
    mask = _register("int64", (size.astype("float64") * tirx.const(1.2, "float64")).astype("int64"))
    for shift in (1, 2, 4, 8, 16, 32):
        mask[0] = tirx.bitwise_or(mask[0], mask[0] >> int64(shift))
    nothing = int64(-1)
    with T.serial(0, mask[0] + 1) as i:
        table[i] = nothing
    place, value = _register("int64", int64(0)), _register("int64", int64(0))
    with T.serial(0, size) as step:
        last = T.bind(population - size + step)
        value[0] = call_function("int64", "bounded_uint64", state, int64(0), last, _FALSE, _FALSE)
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
    drawn = T.bind(call_function("float64", "standard_uniform", state))
    low, high = _register("int64", int64(0)), _register("int64", size)
    with T.While(low[0] < high[0]):
        middle = T.bind((low[0] + high[0]) >> int64(1))
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
        size = int64(sizes_of(buffers[0])[0])

        def emit() -> None:
            total = T.buffer_proxy(work[0])
            if not different:
                _emit_cumulative(T.buffer_proxy(buffers[0]), total, size)
                with grid(sizes_of(out)) as at:
                    T.buffer_store(out, _emit_search(state, total, size), at)
                return
            p, result = T.buffer_proxy(work[1]), T.buffer_proxy(out)
            with T.serial(0, size) as i:
                p[i] = buffers[0][i]
            low_index = _register("int64", int64(0))
            wanted = int64(sizes_of(out)[0])
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

    return kernel(call, body, work)


def _draw_multinomial(call: OpCall, _function: str) -> Value:
    def body(state: PrimExpr, given: Sequence[Buffer], out: Buffer, _work: Sequence[Buffer]) -> list[Stmt]:
        n, pvals = given
        *rows, size = sizes_of(out)

        def draw(at: list[PrimExpr]) -> Stmt:
            clear = loop("k", size, lambda k: store(out, int64(0), *at, k))
            addresses = address(out, [*at, 0]), address(pvals)
            return sequence([clear, run("multinomial", state, load(n), *addresses, int64(size))])

        return [each_element(rows, draw)]

    return kernel(call, body)


def _draw_colors(call: OpCall, function: str) -> Value:
    """Draw counts of the multivariate hypergeometric distribution."""
    name = function.replace(" ", "_")

    def body(state: PrimExpr, given: Sequence[Buffer], out: Buffer, _work: Sequence[Buffer]) -> list[Stmt]:
        colors, sample = given
        rows, size = row_count(out)

        def emit() -> None:
            total = _register("int64", int64(0))
            with T.serial(0, int64(size)) as i:
                total[0] = total[0] + colors[i]
            with grid(sizes_of(out)) as at:
                T.buffer_store(out, int64(0), at)
            arguments = (total[0], int64(size), address(colors), load(sample), int64(rows), address(out))
            if name.endswith("count"):
                T.evaluate(call_function("int64", name, state, *arguments))
            else:
                T.add_to_parent(run(name, state, *arguments))

        return _build_statements(emit)

    return kernel(call, body)


#: NumPy breaks a stick where all parameters of a Dirichlet distribution are less.
_SMALL_ALPHA = 0.1


def _draw_dirichlet(call: OpCall, _function: str) -> Value:
    def work(sizes: list[Extent], _shapes: object) -> list[tuple[Extent, str]]:
        return [(maximum(sizes[-1], 1), "float64")]

    def body(state: PrimExpr, given: Sequence[Buffer], out: Buffer, work: Sequence[Buffer]) -> list[Stmt]:
        (alpha,) = given
        *rows, size = sizes_of(out)
        count, zero, one = int64(size), tirx.const(0, "float64"), tirx.const(1, "float64")

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
                        i = _register("int64", int64(0))
                        with T.While(i[0] < ends[0]):
                            part = T.bind(
                                call_function("float64", "beta", state, alpha[i[0]], sums[i[0] + 1])
                            )
                            T.buffer_store(out, remaining[0] * part, [*at, i[0]])
                            remaining[0] = remaining[0] * (one - part)
                            with T.If(sums[i[0] + 1] <= zero), T.Then():
                                ends[0] = int64(0)
                            i[0] = i[0] + 1
                        T.buffer_store(out, remaining[0], [*at, count - 1])
                with T.Else(), grid(rows) as at:
                    running = _register("float64", zero)
                    with T.serial(0, count) as i:
                        drawn = T.bind(call_function("float64", "standard_gamma", state, alpha[i]))
                        T.buffer_store(out, drawn, [*at, i])
                        running[0] = running[0] + drawn
                    inverse = T.bind(one / running[0])
                    with T.serial(0, count) as i:
                        T.buffer_store(out, load(out, *at, i) * inverse, [*at, i])

        return _build_statements(emit)

    return kernel(call, body, work)


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
            return run("seed", address(outs[0]), load(ins[0]).astype("int64"))

        return te.extern([[WORDS]], [seed], emit, dtype=["uint64"], name="random_pcg64_seed")

    return call.te(compute, *call.args, primfunc_attrs={"op_pattern": OPAQUE})


RULES.update({"numpy.pcg64": _draw, "numpy.pcg64_seed": _seed})
