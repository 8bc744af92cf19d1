"""Construct wide and deep cells, by family and size, and compile each in a child process of its own.

``python -m tests.tinynn.limits.constructed_sources [--build] [--interrupt] [FAMILY...]`` compiles every
family at every size, and prints one line each. A cell must compile or be refused with a located error; a
crash, an internal error and a child that uses up its processor time are faults, and the exit status is 1.
With ``--interrupt`` each cell is compiled on to machine code and interrupted after a third of a second of the
processor, or as ``--after`` says: that it goes on for more than a second of it is a fault, too.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nnmagic.diagnostics import CompileError, Source
from nnmagic.tinynn import compile_source
from tests.tinynn.limits.constructed_cells import Cell, Family, function_of
from tests.tinynn.limits.constructed_newer import NEWER

#: What one cell may take: seconds of the processor for Relay and for machine code, bytes of memory.
SECONDS, BUILD_SECONDS = 20, 120
MOST_BYTES = 16 << 30
#: When a compilation is interrupted, and how soon it must end, in seconds of the processor.
INTERRUPT_AFTER, PATIENCE = 0.3, 1.0
_FIRST_LINE = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the compilation of a cell ended: ``kind`` is compiled, refused, or what is wrong."""

    kind: str
    message: str = ""
    line: int | None = None
    seconds: float = 0.0

    @property
    def is_fault(self) -> bool:
        """Whether the cell neither compiled nor was refused."""
        return self.kind not in ("compiled", "refused", "interrupted")


FAMILIES: dict[str, Family] = dict(NEWER)
SIZES = (1, 2, 3, 4, 5, 7, 10, 20, 50, 100, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 20_000)


def _family(construct: Family) -> Family:
    FAMILIES[construct.__name__] = construct
    return construct


def _calling(functions: list[str], name: str) -> Cell:
    """Return a cell of functions that it does not bind, and of one that calls one of them."""
    last = f"def f(x: Tensor[(4,), f32]):\n    return {name}(x)\n"
    return Cell("\n".join([*functions, last]), {})


def _sum_of_names(size: int) -> list[str]:
    return [*[f"x = x + a{index}" for index in range(size)], "return x"]


# -- what doubles -------------------------------------------------------------------------------------------


@_family
def doubled_tuple(size: int) -> Cell:
    """A tuple of itself, twice."""
    return function_of(["t = (x, x)", *["t = (t, t)"] * size, "return x"])


@_family
def doubled_returned_tuple(size: int) -> Cell:
    """The same, returned."""
    return function_of(["t = (x, x)", *["t = (t, t)"] * size, "return t"])


@_family
def doubled_tuple_of_branches(size: int) -> Cell:
    """A tuple of itself that a branch at run time chooses."""
    return function_of(
        ["t = (x, x)", *["t = (t, t)"] * size, "if x.sum() > 0:", "    t = (t[0], t[1])", "return x"]
    )


@_family
def doubled_list(size: int) -> Cell:
    """A captured list that holds itself twice, and so on."""
    items: list[object] = [1.0]
    for _ in range(size):
        items = [items, items]
    return function_of(["return x * 2 if items else x"], items=items)


@_family
def doubled_alias(size: int) -> Cell:
    """An alias of a type in the notebook that names itself twice, and so on."""
    alias: object = __import__("nnmagic").Tensor[(4,), __import__("nnmagic").f32]
    for _ in range(size):
        alias = tuple[alias, alias]  # type: ignore[valid-type]
    return Cell("def f(x: Alias):\n    return x[0]\n", {"Alias": alias})


@_family
def doubled_local_type(size: int) -> Cell:
    """A type in a function that names itself twice, and so on."""
    return function_of(["T = tuple[f32, f32]", *["T = tuple[T, T]"] * size, "return x"])


@_family
def doubled_concatenation(size: int) -> Cell:
    """A tensor that doubles."""
    return function_of([*["x = concatenate((x, x))"] * size, "return x"])


@_family
def doubled_sum(size: int) -> Cell:
    """An expression with shared operands, whose tree doubles."""
    return function_of([*["x = x + x"] * size, "return x"])


@_family
def doubled_call(size: int) -> Cell:
    """Functions that each call the one before twice."""
    functions = ["def _f0(x: Tensor[(4,), f32]):\n    return x + 1\n"]
    functions += [
        f"def _f{index}(x: Tensor[(4,), f32]):\n    return _f{index - 1}(x) + _f{index - 1}(x * 2)\n"
        for index in range(1, size + 1)
    ]
    return _calling(functions, f"_f{size}")


@_family
def doubled_lambda(size: int) -> Cell:
    """Lambdas that each call the one before twice."""
    lines = ["g0 = lambda y: y + 1"]
    lines += [f"g{index} = lambda y: g{index - 1}(g{index - 1}(y))" for index in range(1, size + 1)]
    return function_of([*lines, f"return g{size}(x)"])


@_family
def doubled_string(size: int) -> Cell:
    """A string that doubles."""
    return function_of(["s = 'ab'", *["s = s + s"] * size, "return x if s == 'a' else x + 1"])


@_family
def doubled_int(size: int) -> Cell:
    """An int that is squared."""
    return function_of(["n = 3", *["n = n * n"] * size, "return x * n"])


@_family
def doubled_tuple_product(size: int) -> Cell:
    """A tuple that is repeated."""
    return function_of(["t = (x,)", *["t = t * 2"] * size, "return t[0]"])


# -- nested -------------------------------------------------------------------------------------------------


@_family
def comprehension_rounds(size: int) -> Cell:
    """Four nested ``for`` of one comprehension."""
    return function_of(
        [
            f"t = [a + b + c + d for a in range({size}) for b in range({size})"
            f" for c in range({size}) for d in range({size})]",
            "return x * t[0]",
        ]
    )


@_family
def nested_comprehensions(size: int) -> Cell:
    """Comprehensions inside one another, of ten items each."""
    text = "1"
    for index in range(size):
        text = f"[{text} for i{index} in range(10)]"
    return function_of([f"t = {text}", "return x"])


@_family
def minus_signs(size: int) -> Cell:
    """Nested unary minus."""
    return function_of([f"return {'-' * size}x"])


@_family
def nots(size: int) -> Cell:
    """Nested ``not``."""
    return function_of([f"return x if {'not ' * size}True else x + 1"])


@_family
def parentheses(size: int) -> Cell:
    """Nested parentheses."""
    return function_of([f"return {'(' * size}x{')' * size}"])


@_family
def brackets(size: int) -> Cell:
    """Nested lists."""
    return function_of([f"t = {'[' * size}x{']' * size}", "return x"])


@_family
def subscripts(size: int) -> Cell:
    """A chain of subscripts."""
    return function_of([f"return x{'[0:4]' * size}"])


@_family
def attributes(size: int) -> Cell:
    """A chain of methods."""
    return function_of([f"return x{'.exp()' * size}"])


@_family
def sum_of_names(size: int) -> Cell:
    """One long sum."""
    return function_of([f"return {' + '.join(['x'] * (size + 1))}"])


@_family
def sum_of_numbers(size: int) -> Cell:
    """One long sum of literals."""
    return function_of([f"return x * ({' + '.join(['1'] * (size + 1))})"])


@_family
def comparisons(size: int) -> Cell:
    """One long chain of comparisons."""
    return function_of([f"return x if {' < '.join(map(str, range(size + 1)))} else x + 1"])


@_family
def conjunction(size: int) -> Cell:
    """One long ``and`` of conditions at run time."""
    return function_of([f"return x if {' and '.join(['x.sum() > 0'] * size)} else x + 1"])


@_family
def nested_calls(size: int) -> Cell:
    """Nested calls of an operator."""
    return function_of([f"return {'exp(' * size}x{')' * size}"])


@_family
def nested_ifs(size: int) -> Cell:
    """Nested ``if`` on values."""
    lines = [f"{' ' * depth}if x.sum() > {depth}:" for depth in range(size)]
    return function_of([*lines, f"{' ' * size}x = x + 1", "return x"])


@_family
def consecutive_ifs(size: int) -> Cell:
    """One ``if`` on values after the other."""
    lines = [line for index in range(size) for line in (f"if x.sum() > {index}:", "    x = x + 1")]
    return function_of([*lines, "return x"])


@_family
def early_returns(size: int) -> Cell:
    """One ``return`` in an ``if`` on values after the other."""
    lines = [line for index in range(size) for line in (f"if x.sum() > {index}:", f"    return x + {index}")]
    return function_of([*lines, "return x"])


@_family
def elifs(size: int) -> Cell:
    """A chain of ``elif`` on values."""
    lines = ["if x.sum() > 0:", "    x = x + 1"]
    lines += [line for index in range(size) for line in (f"elif x.sum() > {index}:", "    x = x + 1")]
    return function_of([*lines, "return x"])


@_family
def nested_conditionals(size: int) -> Cell:
    """A chain of conditional expressions on values."""
    text = "x"
    for index in range(size):
        text = f"x + {index} if x.sum() > {index} else {text}"
    return function_of([f"return {text}"])


@_family
def nested_for(size: int) -> Cell:
    """Nested ``for`` loops of ten rounds."""
    lines = [f"{' ' * depth}for i{depth} in range(10):" for depth in range(size)]
    return function_of([*lines, f"{' ' * size}x = x + 1", "return x"])


@_family
def nested_while(size: int) -> Cell:
    """Nested ``while`` loops on values."""
    lines = [f"{' ' * depth}while x.sum() < {depth}:" for depth in range(size)]
    return function_of([*lines, f"{' ' * size}x = x + 1", "return x"])


@_family
def nested_while_of_changing_type(size: int) -> Cell:
    """Nested ``while`` loops whose first round changes the type of a name."""
    lines = [f"{' ' * depth}while x.sum() < {depth}:" for depth in range(size)]
    return function_of(["a = 1", *lines, f"{' ' * size}a = x * a", f"{' ' * size}x = x + 1", "return a * x"])


@_family
def nested_for_of_changing_types(size: int) -> Cell:
    """Nested ``for`` loops whose first round changes the types of names."""
    lines = [f"{' ' * depth}for i{depth} in range(100):" for depth in range(size)]
    body = [f"{' ' * size}y = y * x + i{size - 1}"]
    return function_of(["y = 0", *lines, *body, "return y"])


@_family
def nested_for_of_own_types(size: int) -> Cell:
    """Nested ``for`` loops, each of which changes the type of a name in its first round."""
    lines = []
    for depth in range(size):
        lines.append(f"{' ' * depth}for i{depth} in range(100):")
        lines.append(f"{' ' * depth} y{depth} = y{depth} * x + i{depth}")
    starts = [f"y{depth} = {depth}" for depth in range(size)]
    return function_of([*starts, *lines, *[f"x = x + y{depth}" for depth in range(size)], "return x"])


@_family
def consecutive_while(size: int) -> Cell:
    """One ``while`` loop after the other."""
    lines = [line for index in range(size) for line in (f"while x.sum() < {index}:", "    x = x + 1")]
    return function_of([*lines, "return x"])


@_family
def rounds(size: int) -> Cell:
    """One ``for`` loop of many rounds."""
    return function_of([f"for i in range({size}):", "    x = x * i", "return x"])


@_family
def nested_functions(size: int) -> Cell:
    """Nested ``def``."""
    lines = [f"{' ' * depth}def g{depth}(y):" for depth in range(size)]
    lines.append(f"{' ' * size}return y + 1")
    lines += [f"{' ' * depth}return g{depth}(y)" for depth in reversed(range(1, size))]
    return function_of([*lines, "return g0(x)"])


@_family
def nested_lambdas(size: int) -> Cell:
    """Nested lambdas, all called."""
    text = "x"
    for index in range(size):
        text = f"(lambda y{index}: {text})(x)"
    return function_of([f"return {text}"])


@_family
def chained_lambdas(size: int) -> Cell:
    """Lambdas that each call the one before."""
    lines = ["g0 = lambda y: y + 1"]
    lines += [f"g{index} = lambda y: g{index - 1}(y)" for index in range(1, size + 1)]
    return function_of([*lines, f"return g{size}(x)"])


@_family
def chained_functions(size: int) -> Cell:
    """Functions that each call the one before."""
    functions = ["def _f0(x: Tensor[(4,), f32]):\n    return x + 1\n"]
    functions += [
        f"def _f{index}(x: Tensor[(4,), f32]):\n    return _f{index - 1}(x)\n" for index in range(1, size + 1)
    ]
    return _calling(functions, f"_f{size}")


@_family
def chained_recursive_functions(size: int) -> Cell:
    """Functions that each call the next one, the last the first, without declared results."""
    functions = [
        f"def _f{index}(x: Tensor[(4,), f32]):\n    if x.sum() > 0:\n        return x\n"
        f"    return _f{(index + 1) % size}(x + 1)\n"
        for index in range(size)
    ]
    return _calling(functions, "_f0")


@_family
def assignments(size: int) -> Cell:
    """One assignment after the other."""
    return function_of([*["x = x + 1"] * size, "return x"])


@_family
def named_assignments(size: int) -> Cell:
    """Names that all stay in use."""
    lines = [f"a{index} = x * {index}" for index in range(size)]
    return function_of([*lines, *_sum_of_names(size)])


@_family
def assignments_in_branch(size: int) -> Cell:
    """Names that a branch assigns."""
    lines = [f"a{index} = x * {index}" for index in range(size)]
    changed = [f"    a{index} = a{index} + 1" for index in range(size)]
    return function_of([*lines, "if x.sum() > 0:", *changed, *_sum_of_names(size)])


@_family
def assignments_in_loop(size: int) -> Cell:
    """Names that a loop assigns."""
    lines = [f"a{index} = x * {index}" for index in range(size)]
    changed = [f"    a{index} = a{index} + 1" for index in range(size)]
    return function_of([*lines, "while x.sum() > 0:", "    x = x - 1", *changed, *_sum_of_names(size)])


@_family
def errors(size: int) -> Cell:
    """Errors, one a line."""
    return function_of([*[f"y = missing{index} + x" for index in range(size)], "return x"])


@_family
def syntax_errors(size: int) -> Cell:
    """Unsupported statements, one a line."""
    return function_of([*["del x"] * size, "return x"])


@_family
def unused_names(size: int) -> Cell:
    """Warnings, one a line."""
    return function_of([*[f"y{index} = x" for index in range(size)], "return x"])


@_family
def match_cases(size: int) -> Cell:
    """A match of many cases on one value."""
    lines = [line for index in range(size) for line in (f"    case {index}:", f"        n = {index + 1}")]
    return function_of(["n = 1", "match n:", *lines, "    case _:", "        pass", "return x * n"])


_LIST = """class Tree:
    def Leaf(): ...
    def Node(left: Tree, right: Tree): ...


"""


@_family
def match_alternatives(size: int) -> Cell:
    """One pattern of many alternatives."""
    pattern = " | ".join(f"({index}, {index})" for index in range(size))
    return function_of(
        [
            "p = (1, 2)",
            "match p:",
            f"    case {pattern}:",
            "        x = x + 1",
            "    case _:",
            "        pass",
            "return x",
        ]
    )


@_family
def match_product(size: int) -> Cell:
    """A tuple pattern whose every item has two alternatives."""
    pattern = ", ".join(["Leaf() | Node(_, _)"] * size)
    subject = ", ".join(["t"] * size)
    text = (
        f"{_LIST}def f(t: Tree, x: Tensor[(4,), f32]):\n    match ({subject},):\n        case ({pattern},):\n"
    )
    return Cell(f"{text}            x = x + 1\n    return x\n", {})


@_family
def match_depth(size: int) -> Cell:
    """A deep pattern."""
    pattern = "_"
    for _ in range(size):
        pattern = f"Node({pattern}, _)"
    text = f"{_LIST}def f(t: Tree, x: Tensor[(4,), f32]):\n    match t:\n        case {pattern}:\n"
    return Cell(f"{text}            x = x + 1\n        case _:\n            x = x + 2\n    return x\n", {})


@_family
def deep_type(size: int) -> Cell:
    """A type of nested tuples."""
    return function_of(["return x"], f"x: {'tuple[' * size}Tensor[(4,), f32]{']' * size}")


@_family
def long_lines(size: int) -> Cell:
    """A line of many characters."""
    return function_of([f"return x + {'1' * size}.0"])


@_family
def long_names(size: int) -> Cell:
    """A name of many characters."""
    name = "a" * size
    return function_of([f"{name} = x + 1", f"return {name} * {name}"])


# -- wide ---------------------------------------------------------------------------------------------------


@_family
def parameters(size: int) -> Cell:
    """Parameters, all used."""
    text = ", ".join(f"p{index}: Tensor[(4,), f32]" for index in range(size))
    return function_of(["x = p0", *[f"x = x + p{index}" for index in range(1, size)], "return x"], text)


@_family
def private_parameters(size: int) -> Cell:
    """A function of many parameters that another one calls."""
    parameters = ", ".join(f"p{index}: Tensor[(4,), f32]" for index in range(size))
    private = f"def _f({parameters}):\n    return p0 + p{size - 1}\n"
    caller = f"def f(x: Tensor[(4,), f32]):\n    return _f({', '.join(['x'] * size)})\n"
    return Cell(f"{private}\n{caller}", {})


@_family
def parameter_tuple(size: int) -> Cell:
    """A parameter that is a wide tuple."""
    text = f"t: tuple[{', '.join(['Tensor[(4,), f32]'] * size)}]"
    return function_of(["x = t[0]", *[f"x = x + t[{index}]" for index in range(1, size)], "return x"], text)


@_family
def results(size: int) -> Cell:
    """A result of many tensors."""
    return function_of([f"return ({', '.join(f'x + {index}' for index in range(size))},)"])


@_family
def same_results(size: int) -> Cell:
    """A result that is one tensor many times."""
    return function_of([f"return ({'x, ' * size})"])


@_family
def stacked(size: int) -> Cell:
    """A stack of many tensors."""
    return function_of([f"return stack(({'x, ' * size}))"])


@_family
def stacked_parts(size: int) -> Cell:
    """A stack of many different tensors."""
    return function_of([f"return stack(({', '.join(f'x + {index}' for index in range(size))},))"])


@_family
def concatenated_named_sizes(size: int) -> Cell:
    """A concatenation of tensors of a named size."""
    return function_of([f"return concatenate(({'x, ' * size}))"], 'x: Tensor[("n",), f32]')


@_family
def split_parts(size: int) -> Cell:
    """A tensor split into many parts, whose sum is taken."""
    lines = [
        f"parts = split(x, {size})",
        "y = parts[0]",
        "for part in parts:",
        "    y = y + part",
        "return y",
    ]
    return function_of(lines, f"x: Tensor[({size}, 4), f32]")


@_family
def split_returned(size: int) -> Cell:
    """A tensor split into many parts, which are returned."""
    return function_of([f"return split(x, {size})"], f"x: Tensor[({size}, 4), f32]")


@_family
def unpacked_rows(size: int) -> Cell:
    """A loop over the rows of a tensor."""
    return function_of(
        ["y = x[0]", "for row in x:", "    y = y * 2 + row", "return y"], f"x: Tensor[({size}, 4), f32]"
    )


@_family
def meshgrid_named(size: int) -> Cell:
    """A meshgrid of vectors of named sizes."""
    text = ", ".join(f'p{index}: Tensor[("n{index}",), f32]' for index in range(size))
    return function_of([f"return meshgrid({', '.join(f'p{index}' for index in range(size))})[0]"], text)


@_family
def named_sizes(size: int) -> Cell:
    """Many named sizes."""
    text = ", ".join(f'p{index}: Tensor[("n{index}",), f32]' for index in range(size))
    return function_of([f"return concatenate(({', '.join(f'p{index}' for index in range(size))},))"], text)


@_family
def einsum_operands(size: int) -> Cell:
    """An einsum of many operands."""
    return function_of([f"return einsum('{','.join(['i'] * size)}->i', {', '.join(['x'] * size)})"])


@_family
def dimensions(size: int) -> Cell:
    """A tensor of many axes."""
    return function_of(["return x + 1"], f"x: Tensor[({'1, ' * size}), f32]")


@_family
def new_axes(size: int) -> Cell:
    """A subscript with many new axes."""
    return function_of([f"return x[{', '.join(['None'] * size)}]"])


@_family
def kernel_size(size: int) -> Cell:
    """A convolution with a large kernel."""
    return function_of(
        ["return nn.conv2d(x, w)"],
        f"x: Tensor[(1, 1, {2 * size}, {2 * size}), f32], w: Tensor[(1, 1, {size}, {size}), f32]",
    )


@_family
def pool_size(size: int) -> Cell:
    """A pooling with a large window."""
    return function_of(
        [f"return nn.max_pool2d(x, ({size}, {size}))"], f"x: Tensor[(1, 1, {size}, {size}), f32]"
    )


@_family
def captured_numbers(size: int) -> Cell:
    """A captured list of numbers, added up."""
    return function_of(["return x * sum(items)"], items=[0.5] * size)


@_family
def captured_dict(size: int) -> Cell:
    """A captured dict of numbers."""
    return function_of(["return x * items['k0']"], items={f"k{index}": float(index) for index in range(size)})


@_family
def captured_arrays(size: int) -> Cell:
    """A captured list of arrays, added up."""
    return function_of(
        ["for item in items:", "    x = x + item", "return x"],
        items=[np.full(4, index, np.float32) for index in range(size)],
    )


@_family
def captured_names(size: int) -> Cell:
    """Many captured arrays by name."""
    names = {f"w{index}": np.full(4, index, np.float32) for index in range(size)}
    return function_of([f"x = x + {name}" for name in names] + ["return x"], **names)


@_family
def captured_depth(size: int) -> Cell:
    """A captured list in a list, and so on."""
    items: list[object] = [1.0]
    for _ in range(size):
        items = [items]
    return function_of(["return x if items else x + 1"], items=items)


@_family
def captured_by_closure(size: int) -> Cell:
    """A local function that closes over many tensors and cannot be inlined."""
    lines = [f"a{index} = x * {index}" for index in range(size)]
    lines += ["def g(y: Tensor[(4,), f32]) -> Tensor[(4,), f32]:", "    if y.sum() > 9:", "        return y"]
    lines += [f"    y = y + a{index}" for index in range(size)]
    return function_of([*lines, "    return g(y)", "return g(x)"])


@_family
def arguments(size: int) -> Cell:
    """A call of a function of the cell with many arguments."""
    text = ", ".join(f"p{index}: Tensor[(4,), f32]" for index in range(size))
    sums = "".join(f"    x = x + p{index}\n" for index in range(1, size))
    callee = f"def _g({text}):\n    if p0.sum() > 0:\n        return p0\n    x = p0\n{sums}    return x\n"
    return Cell(f"{callee}\ndef f(x: Tensor[(4,), f32]):\n    return _g({', '.join(['x'] * size)})\n", {})


@_family
def functions(size: int) -> Cell:
    """Functions that do not call one another."""
    return Cell(
        "\n".join(f"def f{index}(x: Tensor[(4,), f32]):\n    return x + {index}\n" for index in range(size)),
        {},
    )


@_family
def constructors(size: int) -> Cell:
    """A data type of many constructors, matched."""
    declared = "\n".join(f"    def C{index}(a: Tensor[(4,), f32]): ..." for index in range(size))
    cases = "\n".join(f"        case C{index}(a):\n            return a + {index}" for index in range(size))
    return Cell(f"class D:\n{declared}\n\n\ndef f(d: D):\n    match d:\n{cases}\n", {})


@_family
def constructor_fields(size: int) -> Cell:
    """A constructor of many fields."""
    fields = ", ".join(f"a{index}: Tensor[(4,), f32]" for index in range(size))
    text = f"class D:\n    def C({fields}): ...\n\n\ndef f(x: Tensor[(4,), f32]) -> D:\n"
    return Cell(f"{text}    return C({', '.join(['x'] * size)})\n", {})


@_family
def tuple_fields(size: int) -> Cell:
    """Values with a field that is a tuple, in a loop at run time."""
    fields = "pair: tuple[Tensor[(4,), f32], Tensor[(4,), f32]], rest: D"
    text = f"class D:\n    def Nil(): ...\n    def C({fields}): ...\n\n\n"
    lines = [f"    d{index + 1} = C((x, x), d{index})" for index in range(size)]
    body = "\n".join(["    d0 = Nil()", *lines])
    return Cell(f"{text}def f(x: Tensor[(4,), f32]) -> D:\n{body}\n    return d{size}\n", {})


@_family
def nested_loops_of_tuples(size: int) -> Cell:
    """A loop that carries a wide tuple."""
    lines = [f"t = ({'x, ' * size})", "while x.sum() < 9:", "    x = x + 1", "    t = (*t[1:], x)"]
    return function_of([*lines, "return t[0]"])


@_family
def large_constants(size: int) -> Cell:
    """Many literals in one tensor."""
    return function_of([f"return array([{', '.join(f'{index}.5' for index in range(size))}])[:4] + x"])


# -- compiled in a child process ----------------------------------------------------------------------------


def compile_in_child(cell: Cell, *, build: bool, interrupt: float | None = None) -> Outcome:
    """Compile a cell in a forked child, to Relay or on to machine code; return how it ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _compile_and_exit(cell, write, build=build, interrupt=interrupt)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        kind = "out of time" if number in (signal.SIGXCPU, signal.SIGKILL) else signal.Signals(number).name
        return Outcome(kind, seconds=seconds)
    if not text:
        return Outcome("no answer", seconds=seconds)
    kind, message, line = json.loads(text)
    return Outcome(kind, message, line, seconds)


def _compile_and_exit(cell: Cell, write: int, *, build: bool, interrupt: float | None) -> None:
    import resource  # POSIX has it

    seconds = SECONDS if interrupt is None and not build else BUILD_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        answer = _compile(cell, build=build) if interrupt is None else _interrupt(cell, interrupt)
    except BaseException as error:  # noqa: BLE001 - that is what this looks for
        answer = (type(error).__name__, str(error)[:200], None)
    os.write(write, json.dumps(answer).encode())
    os._exit(0)


def _compile(cell: Cell, *, build: bool) -> tuple[str, str, int | None]:
    try:
        if build:
            _build(cell)
        else:
            compile_source(Source("cell", cell.source, first_line=_FIRST_LINE), cell.names)
    except CompileError as error:
        first = error.diagnostics[0]
        if first.span is None:
            return "an error without a location", first.message, None
        error.diagnostics[0].render()
        return "refused", first.message, first.span.line
    return "compiled", "", None


def _interrupt(cell: Cell, after: float) -> tuple[str, str, int | None]:
    """Compile a cell to machine code, and interrupt that; return whether it soon ended."""
    signal.signal(signal.SIGPROF, signal.default_int_handler)
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, after)  # whichever thread gets its signal
    try:
        answer = _compile(cell, build=True)
        signal.setitimer(signal.ITIMER_PROF, 0)
    except KeyboardInterrupt:
        waited = time.process_time() - begin - after
        answer = ("interrupted" if waited <= PATIENCE else "held", f"{waited:.2f} s later", None)
    return answer


def _build(cell: Cell) -> None:
    nnmagic = __import__("nnmagic")
    nnmagic.compile(cell.source, namespace=cell.names, cache=False)


def outcomes(
    names: list[str], sizes: Sequence[int], *, build: bool, interrupt: float | None = None
) -> Iterator[tuple[str, int, Outcome]]:
    """Compile families at growing sizes; stop a family at its first fault."""
    for name in names:
        for size in sizes:
            outcome = compile_in_child(FAMILIES[name](size), build=build, interrupt=interrupt)
            yield name, size, outcome
            if outcome.is_fault:
                break


def main() -> int:
    """Compile the families that the arguments name, or all; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", action="store_true", help="compile on to machine code")
    parser.add_argument("--interrupt", action="store_true", help="interrupt each compilation")
    parser.add_argument("--after", type=float, default=INTERRUPT_AFTER, help="seconds until the interrupt")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("family", nargs="*", default=list(FAMILIES))
    arguments = parser.parse_args()
    if arguments.build or arguments.interrupt:
        __import__("tvm")
        __import__("nnmagic.engine.relax.driver")
    interrupt = arguments.after if arguments.interrupt else None
    faults = 0
    for name, size, outcome in outcomes(
        arguments.family, arguments.sizes, build=arguments.build, interrupt=interrupt
    ):
        line = "" if outcome.line is None else f" (line {outcome.line})"
        text = f"{name} {size}: {outcome.kind} {outcome.seconds:.2f} s {outcome.message[:110]}{line}"
        print(text, flush=True)  # noqa: T201 - its output
        faults += outcome.is_fault
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
