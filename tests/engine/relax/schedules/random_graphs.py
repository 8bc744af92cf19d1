"""Random Relay programs of tensors, by seed, each value of which NumPy computes, too.

A program of the kind ``exact`` has numbers that every order of operations computes alike: small integers,
with many ties. One of the kind ``special`` moves and compares NaN, infinities, zeros and denormal numbers.
One of the kind ``smooth`` has functions of vector mathematics and is judged in float64 with a tolerance.

``python -m tests.engine.relax.schedules.random_graphs FIRST LAST`` runs a range of seeds and prints what
disagrees, made small; ``program(seed)`` is a program, ``disagreement(program)`` what is wrong with it.
"""

from __future__ import annotations

import itertools
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from nnmagic.diagnostics import CompileError
from nnmagic.engine.arguments import Parameter, convert_argument
from nnmagic.engine.relax import build
from nnmagic.relay.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from nnmagic.relay.ops import RelationError
from nnmagic.relay.types import AnyDim, TensorType, TupleType
from tests.engine.relax.codegen.targets import OLDER
from tests.engine.relax.schedules.graph_moves import Moves
from tests.engine.relax.schedules.graph_nodes import (
    LIMITS,
    SIZES,
    Array,
    Node,
    Program,
    Unfit,
    Value,
    check_value,
    random_values,
)
from tests.engine.relax.schedules.graph_products import Products

TARGETS = [None, None, OLDER]
LEVELS = [3, 3, 3, 2, 1, 0]
STEPS = {
    "exact": [
        "unary",
        "binary",
        "binary",
        "binary",
        "binary",
        "divide",
        "clip",
        "compare",
        "compare",
        "select",
        "select",
        "logical",
        "bits",
        "cast",
        "reduce",
        "reduce",
        "reduce",
        "reduce",
        "arg_reduce",
        "arg_reduce",
        "arg_reduce",
        "scan",
        "sort",
        "move",
        "move",
        "move",
        "move",
        "product",
        "product",
        "attend",
        "convolve",
        "convolve",
        "convolve_transpose",
        "pool_windows",
        "new",
    ],
    "special": [
        "unary",
        "binary",
        "binary",
        "compare",
        "select",
        "select",
        "logical",
        "cast",
        "classify",
        "reduce",
        "reduce",
        "reduce",
        "arg_reduce",
        "arg_reduce",
        "sort",
        "move",
        "move",
        "move",
        "move",
        "move",
        "pool_windows",
        "new",
    ],
    "smooth": [
        "unary",
        "binary",
        "binary",
        "binary",
        "curve",
        "curve",
        "curve",
        "gelu",
        "normalize",
        "normalize",
        "average",
        "average",
        "reduce",
        "move",
        "product",
        "product",
        "attend",
        "convolve",
        "convolve",
        "pool_windows",
        "new",
    ],
}


class Generator(Moves, Products):
    """Grows a pool of nodes; each step adds one made of earlier ones."""

    def step(self) -> None:
        """Adds a node, or none where the choice does not fit."""
        name = str(self.one_of(STEPS[self.kind]))
        try:
            result = getattr(self, name)()
        except (RelationError, Unfit):
            return
        self.pool += result if isinstance(result, list) else [result]


def program(seed: int) -> Program:
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    kind = ("exact", "exact", "exact", "special", "smooth")[int(rng.integers(5))]
    maker = Generator(seed, kind, rng)
    some = SIZES if maker.chance(0.7) else [size for size in SIZES if 2 <= size <= 33]
    maker.dims = [int(maker.one_of(some)) for _ in range(maker.number(1, 4))]  # type: ignore[call-overload]
    if maker.chance(0.25):
        maker.labels = {size: f"n{index}" for index, size in enumerate(maker.dims) if maker.chance(0.6)}
    for _ in range(maker.number(1, 3)):
        maker.new(rank=maker.number(1, 4))
    for _ in range(maker.number(2, 12)):
        maker.step()
    used = {arg for node in maker.pool for arg in ancestors(node)}
    ends = [node for node in maker.pool if node not in used and node.args]
    ends = ends or [node for node in maker.pool if node.args] or maker.pool[-1:]
    results = ends[-maker.number(1, 4) :]
    if maker.chance(0.3):
        results.append(maker.one_of(maker.pool))  # type: ignore[arg-type]
    target = maker.one_of(TARGETS)
    level = int(maker.one_of(LEVELS))  # type: ignore[call-overload]
    first = {label: size for size, label in maker.labels.items()}
    other = [{label: int(maker.one_of(SIZES[:-4])) for label in first} for _ in range(3)] if first else []  # type: ignore[call-overload]
    return Program(seed, kind, tuple(results), target, level, (first, *other))  # type: ignore[arg-type]


def ancestors(node: Node) -> Iterator[Node]:
    """The node's arguments, with those of tuples that are not in a pool."""
    for arg in node.args:
        yield arg
        if isinstance(arg.type, TupleType):
            yield from ancestors(arg)


# --- how it is judged ---------------------------------------------------------------------------------------


def compute_expected(
    program: Program, sizes: Mapping[str, int], seed: int
) -> tuple[list[Array], list[Array]]:
    """Arguments of a call with these sizes, and the results. Raises Unfit where NumPy is no judge."""
    rng = np.random.default_rng([program.seed, seed])
    values: dict[Node, Value] = {}
    given = []
    for node in program.nodes():
        if isinstance(node.expr, Var):
            assert isinstance(node.type, TensorType)
            shape = [dim if isinstance(dim, int) else sizes[str(dim.label)] for dim in node.type.shape]  # type: ignore[union-attr]
            same = tuple(shape) == node.shape and seed == 0
            value = node.value if same else random_values(rng, shape, node.dtype, program.kind)
            assert isinstance(value, np.ndarray)
            values[node] = value
            given.append(value.astype(node.dtype))
        elif isinstance(node.expr, Constant):
            values[node] = node.value
        else:
            assert node.compute is not None
            args = [values[arg] for arg in node.args]
            try:
                values[node] = check_value(node.compute(*args), node.type, program.kind)
            except (ValueError, IndexError) as error:
                raise Unfit from error
            if sum(map(np.size, values[node] if isinstance(values[node], tuple) else [values[node]])) > 10**5:
                raise Unfit
            if (
                node.largest is not None
                and program.kind == "exact"
                and node.largest(*args) > LIMITS[node.dtype]
            ):
                raise Unfit
    results = []
    for node in program.results:
        value = values[node]
        assert isinstance(value, np.ndarray)
        results.append(value.astype(node.dtype))
    return given, results


def unusual(array: Array, rng: np.random.Generator) -> Array:
    """The same values in memory that is not contiguous, not aligned, backwards or read-only."""
    match int(rng.integers(7)):
        case 0 if array.ndim:
            array = np.asfortranarray(array)
        case 1 if array.ndim:
            array = np.ascontiguousarray(array[::-1])[::-1]
        case 2 if array.ndim:
            array = np.repeat(array, 2, -1)[..., ::2]
        case 3:
            memory = np.zeros(array.nbytes + 1, "u1")[1:]
            view = memory.view(array.dtype) if array.size else array.ravel()
            view[:] = array.ravel()
            array = view.reshape(array.shape)
        case 4:
            array = array.copy()
            array.flags.writeable = False
    return array


def disagreement(program: Program) -> str | None:
    """What is wrong with the compiled program, in words; None where all is right."""
    module = program.module()
    try:
        executable = build(module, "main", target=program.target, opt_level=program.level)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return f"not built: {type(error).__name__}: {error}"
    for number, sizes in enumerate(program.sizes):
        try:
            with np.errstate(all="ignore"):
                arrays, results = compute_expected(program, sizes, number)
        except Unfit:
            continue
        rng = np.random.default_rng([program.seed, number, 1])
        dims: dict[str, int] = {}
        try:
            given = [
                convert_argument(Parameter(str(node.expr), node.type), unusual(array, rng), dims)
                for node, array in zip(program.params, arrays, strict=True)
            ]
            result = executable(given)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            if (
                program.sizes[0]
                and isinstance(error, ValueError)
                and is_refused_with_static_sizes(program, sizes)
            ):
                continue
            return f"not run with {dict(sizes)}: {type(error).__name__}: {error}"
        parts = result if isinstance(result, tuple) else (result,)
        for index, (one, wanted) in enumerate(zip(parts, results, strict=True)):
            wrong = difference(one, wanted, program.kind)
            if wrong:
                return f"result {index} with {dict(sizes)}: {wrong}"
    return None


def difference(result: Array, wanted: Array, kind: str) -> str | None:
    if (result.dtype, result.shape) != (wanted.dtype, wanted.shape):
        return f"{result.dtype}{result.shape} and not {wanted.dtype}{wanted.shape}"
    if kind == "smooth" and result.dtype.kind == "f":
        tolerance = {"rtol": 2e-4, "atol": 2e-4 * (1 + np.abs(wanted).max(initial=0))}
        same = np.isclose(result, wanted, equal_nan=True, **tolerance)
    else:
        same = np.asarray((result == wanted) | ((result != result) & (wanted != wanted)))
    if same.all():
        return None
    index = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{(~same).sum()} of {same.size} are wrong, at {index} {result[index]!r} and not {wanted[index]!r}"


# --- how it is made small -----------------------------------------------------------------------------------


def shrink(program: Program, judge: Callable[[Program], str | None] = disagreement) -> Program:
    """A smaller program that is wrong, too: one result, and parameters instead of what is not needed."""
    simpler = [replace(program, results=(result,)) for result in program.results]
    simpler += [replace(program, results=pair) for pair in itertools.pairwise(program.results)]
    program = next((one for one in simpler if len(program.results) > 1 and judge(one)), program)
    for wish in ({"target": None}, {"level": 3}, {"sizes": program.sizes[:1]}):
        other = replace(program, **wish)  # type: ignore[arg-type]
        program = other if judge(other) else program
    changed = True
    while changed:
        changed = False
        for node in reversed(program.nodes()):
            if isinstance(node.expr, Var | Constant) or not isinstance(node.type, TensorType):
                continue
            other = without(program, node)
            if other is not None and judge(other):
                program, changed = other, True
                break
    return program


def without(program: Program, cut: Node) -> Program | None:
    """The program with a parameter, which has its value, instead of a node; None where that is all of it."""
    if cut in program.results or (len(program.sizes) > 1 and "int" in cut.dtype):
        return None
    assert isinstance(cut.type, TensorType)
    assert isinstance(cut.value, np.ndarray)
    known = {label for sizes in program.sizes for label in sizes}
    dims = [
        dim if isinstance(dim, int) or getattr(dim, "label", None) in known else size
        for dim, size in zip(cut.type.shape, cut.shape, strict=True)
    ]
    type_ = TensorType(tuple(dims), cut.dtype)
    return substitute(program, {cut: Node(Var(f"y{len(program.nodes())}", type_), type_, cut.value)})


def substitute(program: Program, made: dict[Node, Node]) -> Program:
    """The program with other nodes instead of some."""

    def again(node: Node) -> Node:
        if node not in made:
            args = tuple(again(arg) for arg in node.args)
            exprs = tuple(arg.expr for arg in args)
            match node.expr:
                case Call():
                    expr: Expr = Call(node.expr.op, exprs, node.expr.attrs)
                case Tuple():
                    expr = Tuple(exprs)
                case TupleGetItem():
                    expr = TupleGetItem(exprs[0], node.expr.index)
                case _:
                    return made.setdefault(node, node)
            made[node] = replace(node, expr=expr, args=args)
        return made[node]

    return replace(program, results=tuple(again(result) for result in program.results))


def is_refused_with_static_sizes(program: Program, sizes: Mapping[str, int]) -> bool:
    """Whether the program is refused, too, where its parameters' types say these sizes."""
    made = {}
    for node in program.params:
        assert isinstance(node.type, TensorType)
        shape = [sizes[str(dim.label)] if isinstance(dim, AnyDim) else dim for dim in node.type.shape]
        type_ = TensorType(tuple(shape), node.dtype)
        made[node] = replace(node, expr=Var(str(node.expr.name_hint), type_), type=type_)  # type: ignore[attr-defined]
    known = substitute(program, made)  # type: ignore[arg-type]
    try:
        build(known.module(), "main")
    except CompileError:
        return True
    return False


def report(seed: int) -> None:
    """Prints what is wrong with the program of a seed, made small."""
    sys.stdout.write(f"seed {seed}\n")
    sys.stdout.flush()
    try:
        one = program(seed)
        wrong = disagreement(one)
        if wrong is not None:
            small = shrink(one)
            sys.stdout.write(f"WRONG {seed} {one.kind}: {wrong}\n{disagreement(small)}\n{small}\n")
    except Exception:  # noqa: BLE001 - the next seed is another program
        sys.stdout.write(f"ERROR {seed}: {traceback.format_exc()}\n")


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        report(number)
