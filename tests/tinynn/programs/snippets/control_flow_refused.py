"""Control flow, functions in functions and data types that a cell refuses: where, and in which words."""

# ruff: noqa: E501  # a case reads best on one line

from __future__ import annotations

import math
import random

import numpy as np

from tests.tinynn.programs.snippets.cases import Case, refused


def outside(x: object) -> object:
    """An ordinary function of the notebook."""
    raise AssertionError("nothing of the notebook runs")


class Layer:
    """An ordinary object of the notebook."""

    def forward(self, x: object) -> object:
        """A method with side effects."""
        raise AssertionError("nothing of the notebook runs")


def body(name: str, text: str, message: str, hint: str | None = None, **namespace: object) -> Case:
    """A function of a vector x and an int n whose statements are these."""
    lines = "".join(f"    {line}\n" for line in text.split("\n"))
    return refused(name, f"def f(x: Tensor[(3,), f32], n: i32):\n{lines}", message, hint, namespace)


_BOTH = "give it one shape and one dtype in both, as in x.astype(f32)"
_MAYBE = "assign it before, or in every branch"
_LIST = "class List:\n    def Nil(): ...\n    def Cons(head: f32, tail: List): ...\n\n"

CASES: list[Case] = [
    # -- conditions ------------------------------------------------------------------------------------------
    body("if-of-many", "if «x > 0»:\n    return x\nreturn x + 1", "`if` needs one truth value, not a Tensor[(3,), bool_]", "write (x > 0).any() or (x > 0).all()"),
    body("while-of-many", "while «x»:\n    x = x - 1\nreturn x", "`while` needs one truth value, not a Tensor[(3,), f32]", "write x.any() or x.all()"),
    body("not-of-many", "return not «x»", "`not` needs one truth value, not a Tensor[(3,), f32]", "write x.any() or x.all()"),
    body("and-of-many", "return «x» and n", "`and` needs one truth value, not a Tensor[(3,), f32]", "element by element it is &; or write x.any()"),
    body("chain-of-many", "return «1 < x < 2»", "a chained comparison needs one truth value, not a Tensor[(3,), bool_]", "write (a < b) & (b < c)"),
    body("conditional-of-two-types", "return «x if n else n»", "one side gives a Tensor[(3,), f32], the other an i32", _BOTH),
    body("and-of-two-types", "y = «n and x»\nreturn y", "one side gives a Tensor[(3,), f32], the other an i32", _BOTH),
    body("is-of-numbers", "return x * («n is x»)", "`is` is for None: nothing says whether two values are one object", "compare with =="),
    body("a-function-as-condition", "if «relu»:\n    return x\nreturn x + 1", "`if` takes a condition, not the function relu"),
    # -- branches --------------------------------------------------------------------------------------------
    body("one-branch-assigns", "if x.sum() > 0:\n    y = x\nreturn «y»", "`y` may not be assigned here", _MAYBE),
    body("told-once", "if x.sum() > 0:\n    y = x\nz = «y» + 1\nreturn y + z", "`y` may not be assigned here", _MAYBE),
    body("a-string-that-differs", "s = 'abc'\nif n > 0:\n    s = 'def'\nreturn x.sum(axis=«s»)", "`s` is the string 'def' or the string 'abc' here: branches leave it with different values, and it must be known at compile time"),
    body("returns-of-two-types", "if x.sum() > 0:\n    return x\nelse:\n    return «n»", "`f` returns an i32 here", "return one shape and one dtype on every path"),
    refused("a-path-without-return", "def «f»(x: f32):\n    if x > 0:\n        return x\n", "`f` does not return a value on every path", "add a `return` at its end"),
    body("a-number-or-a-tensor", "if n:\n    z = 1\nelse:\n    z = x\nreturn «z»", "`z` is the number 1 or a Tensor[(3,), f32] here: branches leave it with different values", "begin with a tensor of the shape that it is to have, as in zeros((3,), f32)"),
    # -- loops -----------------------------------------------------------------------------------------------
    body("a-number-is-no-range", "for i in «5»:\n    x = x + 1\nreturn x", "the number 5 cannot be gone over", "write range(5)"),
    body("a-range-of-floats", "for i in range(«0.5»):\n    x = x + 1\nreturn x", "range takes ints, not the number 0.5"),
    body("a-range-of-a-vector", "for i in range(«x»):\n    x = x + 1\nreturn x", "range takes ints, not a Tensor[(3,), f32]", "write range(len(x))"),
    body("a-step-of-zero", "for i in range(0, 5, «0»):\n    x = x + 1\nreturn x", "the step of a range cannot be zero"),
    body("a-sum-that-begins-as-a-number", "total = 0\nfor i in range(n):\n    total = «total» + x\nreturn total", "`total` is the number 0 or a Tensor[(3,), f32] here: it changes from round to round", "begin with a tensor of the shape that it is to have, as in zeros((3,), f32)"),
    body("only-the-loop-assigns", "for i in range(n):\n    y = x * i\nreturn «y»", "`y` may not be assigned here: only a loop assigns it", "assign it before the loop"),
    refused("a-loop-without-end", "def «f»(x: f32):\n    while True:\n        x = x + 1\n", "`f` never returns: it has a loop without end", "end the loop with `break` or `return`"),
    # -- assert ----------------------------------------------------------------------------------------------
    body("an-assert-that-is-false", "assert «x.shape == (4,)», 'four'\nreturn x", "this assertion does not hold: four"),
    body("a-message-without-a-text", "assert n > 0, «x + 1j»\nreturn x", "a text shows tensors, numbers, strings and tuples of them, not a Tensor[(3,), c64]", "write its real and its imaginary part"),
    body("raise-of-no-built-in-exception", "if n > 0:\n    raise «outside»\nreturn x", "a cell cannot raise `outside`", "raise a built-in exception with a message, as in raise ValueError('x must be positive')", outside=outside),
    # -- functions -------------------------------------------------------------------------------------------
    refused("recursion-without-end", "def «f»(x: f32):\n    return f(x)\n", "`f` calls itself, and no branch says what it returns", "write the type of its result, as in -> Tensor[(2, 3), f32], and let a branch end it"),
    body("nested-recursion-without-types", "def g(y):\n    return g(y)\nreturn «g(x)»", "`_g` cannot be compiled for these arguments", "write the type of its result, as in -> Tensor[(2, 3), f32], and let a branch end it"),
    body("nested-recursion-through-a-lambda", "def g(y):\n    h = lambda a: «g»(a)\n    return h(y)\nreturn g(x)", "the function `g` calls itself"),
    body("recursion-through-an-argument", "g = lambda q: (lambda a: «q»(q)(a))\nreturn g(g)(x)", "functions without types are inlined into one another at most 30 deep"),
    body("recursion-in-a-lambda-inside", "def «g»(y: Tensor[(3,), f32]):\n    h = lambda a: g(a)\n    return h(y)\nreturn g(x)", "`g` calls itself: its result needs a type"),
    body("nested-recursion-without-result", "def «g»(y: Tensor[(3,), f32]):\n    return g(y)\nreturn g(x)", "`g` calls itself: its result needs a type", "write it after the parameters, as in -> Tensor[(2, 3), f32]"),
    body("half-typed", "def g(a: f32, «b»):\n    return a + b\nreturn x", "parameter `b` has no type", "write its type, as in b: Tensor[(2, 3), f32], or leave all types out"),
    body("a-lambda-of-too-many", "g = lambda: x\nreturn g(«1»)", "<lambda> takes 0 arguments, but 1 are given"),
    body("a-missing-argument", "def g(a, b):\n    return a + b\nreturn «g(x)»", "g: missing argument `b`", "it is called as g(a, b)"),
    refused("keyword-only", "def g(x: f32, *, k: f32):\n    return x * k\n\ndef f(x: f32):\n    return g(x, «x»)\n", "g takes 1 positional arguments, but 2 are given", "give by name: k"),
    refused("positional-only", "def g(x: f32, /):\n    return x\n\ndef f(x: f32):\n    return g(x=«x»)\n", "g: `x` is given by its place only", "leave the name out"),
    refused("a-default-of-none", "def f(x: f32 = «None»):\n    return x\n", "the default of `x` is None, which is no tensor", "write a number, a string or a name of the notebook; or leave the default out"),
    refused("a-function-of-another-type", "def g(h: Callable[[f32], f32], x: f32):\n    return h(x)\n\ndef f(x: f32):\n    return g(«x», x)\n", "g: `h` is a Callable[[f32], f32], not an f32"),
    refused("a-function-value-by-name", "def g(h: Callable[[f32], f32], x: f32):\n    return h(y=«x»)\n", "a function that is a value takes arguments by place only", "leave the name out: the type of a function names no parameters"),
    refused("callable-of-one", "def g(h: «Callable[f32]»):\n    return 1.0\n", "Callable takes the parameters' types and the result's"),
    refused("a-decorator", "@«outside»\ndef f(x: f32):\n    return x\n", "a function of a cell takes no decorator", "remove it; options go on the %%tinynn line"),
    # -- outside code ----------------------------------------------------------------------------------------
    body("random-numbers", "return x * «random.random»()", "`random.random` is not supported in a cell, which has no hidden state", "random numbers come from a key: write key = random.key(seed), then random.uniform(key, shape)", random=random),
    body("a-module-alone", "return «math»", "`math` is the module math, which a cell cannot use", math=math),
    body("an-array-of-objects", "return x + «things»", "`things` is a NumPy array of object, which a cell cannot use", things=np.array([None, 1])),
    # -- data types ------------------------------------------------------------------------------------------
    refused("not-exhaustive", f"{_LIST}def f(xs: List):\n    match «xs»:\n        case Cons(h, t):\n            return h\n", "no case takes Nil", "add a case for it, or `case _:` for all that is left"),
    refused("not-exhaustive-inside", f"{_LIST}def f(xs: List):\n    match «xs»:\n        case Nil():\n            return f32(0)\n        case Cons(h, Nil()):\n            return h\n", "no case takes Cons(_, Cons(_, _))"),
    body("numbers-left-out", "match «n»:\n    case 0:\n        return x\n    case 1:\n        return x * 2", "no case takes an i32", "add a case for it, or `case _:` for all that is left"),
    refused("too-many-fields", f"{_LIST}def f(xs: List):\n    match xs:\n        case «Cons(h, t, u)»:\n            return h\n        case Nil():\n            return f32(0)\n", "`Cons` has 2 fields, not 3", "it is Cons(head, tail)"),
    refused("a-field-that-is-not", f"{_LIST}def f(xs: List):\n    match xs:\n        case «Cons(first=h)»:\n            return h\n        case _:\n            return f32(0)\n", "`Cons` has no field `first`", "its fields: head, tail"),
    refused("a-constructor-of-another", f"{_LIST}class Box:\n    def Of(value: f32): ...\n\ndef f(xs: List):\n    match xs:\n        case «Of(h)»:\n            return h\n        case _:\n            return f32(0)\n", "`Of` is a constructor of Box, but this is a List"),
    body("a-tuple-pattern-of-a-number", "match n:\n    case «[a, b]»:\n        return x\n    case _:\n        return x * 2", "a tuple pattern does not take an i32", "match a tuple, as in match (x, y):"),
    body("a-pattern-that-is-no-constructor", "match n:\n    case «relu»(a):\n        return x\n    case _:\n        return x * 2", "the function relu is no constructor", "write a constructor of a class of the cell, a number, a name or `_`"),
    body("a-dictionary-pattern", "match n:\n    case «{'a': 1}»:\n        return x\n    case _:\n        return x * 2", "a dictionary pattern is not part of TinyNN", "match a constructor or a tuple"),
    refused("a-class-of-nothing", "class «Empty»:\n    pass\n\ndef f(x: f32):\n    return x\n", "the class `Empty` declares no constructor", "declare constructors, as in def Leaf(value: Tensor[(3,), f32]): ..."),
    refused("a-class-with-a-base", "class A(«object»):\n    def B(): ...\n\ndef f(x: f32):\n    return x\n", "a class of a cell has no base", "leave the brackets out: a class of a cell lists constructors"),
    refused("a-module-of-torch", "class Net(«nn.Module»):\n    def B(): ...\n\ndef f(x: f32):\n    return x\n", "a class of a cell has no base", "write a function, which captures arrays of the notebook: `return relu(x @ w + b)`"),
    refused("a-constructor-with-a-body", "class A:\n    «def» B(x: f32):\n        return x\n\ndef f(x: f32):\n    return x\n", "the constructor `B` has a body", "write `...` as its body; what is computed goes in a function"),
    refused("a-class-is-called", f"{_LIST}def f(x: f32):\n    return «List»(x)\n", "the class `List` cannot be called", "call one of its constructors: Nil, Cons"),
    refused("a-constructor-without-brackets", f"{_LIST}def f(x: f32):\n    return Cons(x, «Nil»)\n", "Cons: `tail` is a List, not the constructor `Nil` (without its brackets)", "write Nil()"),
    body("a-class-inside", "«class» A:\n    pass\nreturn x", "a class inside a function is not part of TinyNN", "define it at the top of the cell"),
]  # fmt: skip
