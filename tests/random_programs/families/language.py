"""Cells with all that the language has: control flow, functions in functions, data types, match.

Each name keeps one kind for life, so that what Python does is never a matter of luck: P and Q are Python's
int and float, I and D may be these or i64 and f64 tensors, F is an f32, V and W are vectors of three f32 and
i64, B is a truth value, L and R are values of the data types below. Numbers stay small and floats are exact.
"""

from __future__ import annotations

import random

import numpy as np

from nnmagic.relay.values import AdtValue
from tests.random_programs.program import Family, Program, Rules, choose, seeded
from tests.random_programs.writer import Grammar, Writer, words

_TYPES = """class List:
    def Nil(): ...
    def Cons(head: i64, tail: List): ...

class Tree:
    def Leaf(value: f32): ...
    def Node(left: Tree, right: Tree): ...

def total(items: List, seen: i64) -> i64:
    match items:
        case Nil():
            return seen
        case Cons(a, Cons(b, rest)) if a > b:
            return total(rest, seen + a - b)
        case Cons(3, rest) | Cons(_, Cons(4, rest)):
            return 7 + total(rest, seen)
        case Cons(head, tail):
            return total(tail, (seen + head) % 1009)

def depth(tree: Tree) -> i64:
    match tree:
        case Node(Node(Leaf(a), b), c) if a > 0:
            return 2 + depth(b) - depth(c)
        case Node(left, right):
            l, r = depth(left), depth(right)
            return 1 + (l if l > r else r)
        case Leaf(_):
            return 0

def mirrored(tree: Tree) -> Tree:
    match tree:
        case Node(left, right):
            return Node(mirrored(right), mirrored(left))
        case other:
            return other

def descend(n: i64, x: f32) -> f32:
    if n <= 0:
        return x
    y = descend(n - 1 - n % 2, x * 0.5)
    return y + 1 if n % 3 else y - x

"""

_STATEMENTS = """
    6* <new KIND> = <KIND>

    1.2* <new KIND1>, <new KIND2> = <KIND1>, <KIND2>

    0.8* [outside] <new WALRUS> = (<new WALRUS> := <WALRUS>)

    5.4* <own KIND> = <KIND>

    1* <own F> <+|->= <F|P|Q>

    1* <own V> <+|->= <V|P|Q|F>

    1.6* <own PI> += <P 2> % 9

    3* <a=own KIND>, <b=own KIND> = <b>, <KIND 2>

    assert <I 2> % 7 < 7

    5* [shallow] if <test>:
        <block 1-3>
    ? elif <condition>:
        <block 1-3>
    ? elif <condition>:
        <block 1-3>
    ? else:
        <block 1-3>

    2* [shallow] if <test>:
        <s=new KIND> = <KIND>
        <block 0-3>
    ? elif <condition>:
        <bound s KIND> = <KIND>
        <block 0-3>
    else:
        <bound s KIND> = <KIND>
        <block 0-3>

    4* [shallow] for <iteration>:
        <block 1-4>
    ? else:
        <block 1-2>

    2.6* [shallow] <n=counter COUNT> = <0..4|start COUNT>
    while <n> > 0 <|more>:
        <n> = <n> - 1
        <block 1-4>
    ? else:
        <block 1-2>

    0.4* [shallow] <n=counter COUNT> = <0..4|start COUNT>
    while True:
        if <n> <= 0:
            break
        <n> = <n> - 1
        <block 1-4>

    [shallow flat] def <function RESULT>(<annotated TYPED>)<|arrow>:
        <block 0-3>
        return <results>

    [shallow flat] def <function RESULT>(<annotated TYPED1>, <annotated TYPED2>)<|arrow>:
        <block 0-3>
        return <results>

    0.4* [shallow flat] def <function RESULT>(<annotated TYPED>, <callable F>: Callable[[f32], f32]):
        <block 0-3>
        return <results>

    [shallow flat] def <function F>(<param F>: f32)<|arrow>:
        <block 0-3>
        return <results>

    0.8* [shallow flat] def <function RESULT>(<param LOOSE>):
        <block 0-3>
        return <results>

    0.8* [shallow flat] def <function RESULT>(<param LOOSE1>, <param LOOSE2>):
        <block 0-3>
        return <results>

    0.5* [top] def <redefined F>(<param F>: f32):
        <block 0-3>
        return <results>

    2* [shallow flat] if <condition>:
        def <g=function F>(<alone><param F>: f32):
            <block 0-3>
            return <results>
    else:
        def <again g F>(<alone><param F>: f32):
            <block 0-3>
            return <results>

    2* [shallow flat] <function LAMBDA> = lambda <param LAMBDA>: <LAMBDA 1>

    1* [shallow] match <COUNT 1>:
        case <0..3> <guard>:
            <block 1-2>
        case <0..3> | <4..9> <guard>:
            <block 1-2>
        case _:
            <block 1-2>

    0.5* [shallow] match <COUNT 1>:
        case <0..3> <guard>:
            <block 1-2>
        case <param COUNT>:
            <block 1-2>

    1.4* [shallow] match <L 1>:
        case Cons(<param I>, Nil()) <guard>:
            <block 1-2>
        case Cons(<param I>, Cons(<param I>, <param L>) as <param L>) <guard>:
            <block 1-2>
        ? case Cons(2 | 3, tail=<param L>) <guard>:
            <block 1-2>
        ? case Nil():
            <block 1-2>
        case <param L>:
            <block 1-2>

    0.4* [shallow] match <L 1>:
        case Nil():
            <block 1-2>
        case Cons(<param I>, <param L>):
            <block 1-2>

    0.7* [shallow] match <R 1>:
        case Node(Leaf(<param F>), <param R>) <guard>:
            <block 1-2>
        case Node(<param R>, Node(<param R>, _)) <guard>:
            <block 1-2>
        case Leaf(<param F>):
            <block 1-2>
        case Node(<param R>, <param R>):
            <block 1-2>

    0.4* [shallow] match (<COUNT1 1>, <COUNT2 1>):
        case (0 | 1, <param COUNT2>) <guard>:
            <block 1-2>
        case (<param COUNT1>, 2) <guard>:
            <block 1-2>
        case (2 as <param COUNT1>, 3 | 4 as <param COUNT2>) <guard>:
            <block 1-2>
        case (<param COUNT1>, <param COUNT2>):
            <block 1-2>

    0.2* [shallow] match (<COUNT1 1>, <L 1>):
        case (<param COUNT1>, Cons(<param I>, _)) <guard>:
            <block 1-2>
        case (0, Nil()) <guard>:
            <block 1-2>
        case (<param COUNT1>, <param L>):
            <block 1-2>

    0.5* [nested] return <results>

    0.5* [loop] break

    0.5* [loop] continue
"""

_GRAMMAR = Grammar(
    {
        "program": """
            def f(<params params 2-4>):
                <returns results 1-3>
                <block 3-9>
                return <results>
        """,
        "statement": _STATEMENTS,
        "iteration": """
            <target P> in range(<1..4>)
            <own P> in range(<1..4>)
            <target P> in range(<66|70>)
            <new P> in range(<P 1> % 5)
            <new P> in range(<I 1> % 5)
            <new P> in range(<P 1> % 5, <3..9>, 2)
            <new P> in range(<3..9>, <P 1> % 5, -1)
            <new P> in reversed(range(<P 1> % 5))
            <target F> in <V 1>
            <target I> in <W 1>
            <target P> in (<P 1>, <P 1>)
            <target F> in [<F 1>, <F 1>]
            <new P>, <new I> in enumerate(<W 1>)
            <new P>, <new P> in zip(range(70), range(<P 1> % 5 + 3))
        """,
        "start": "<KIND 1> % 5",
        "more": "and <B 1>",
        "guard": "3* <|>\nif <B 1>",
        "condition": "22* <B>\n<P 1>\n<I 1>\n<F 1>",
        "test": "10* <condition>\n0.7* [outside] (<new I> := <I 1>) > <-2..5>",
        "number": "P\nP\nI\nI\nI\nF\nF\nD\nQ",
        "compare": words("< <= > >= == !="),
        "k": "7* <function_of F>\n3* lambda <param F>: <F 2>",
        "P": """
            <0..6>
            (<P> <+|-|*> <P>) % <7|11|97>
            <P> // <2|3|-2>
            int(<I>)
            -<P>
            (<P>, <P>)[<0..1>]
            len((<P>, 1))
            <P> % 5
            <P> <and|or> <P>
        """,
        "Q": """
            <half>
            <Q> <+|-> <P|Q>
            <Q> * 0.5
            <P> / 4
            float(<F>)
            <Q> % 8.0
        """,
        "I": """
            <P>
            (<I> <+|-|*> <I>) % <7|11|97>
            <I> // <2|3|-2>
            <W>[<-3..2>]
            <W>.sum() % 31
            total(<L>, <I>)
            depth(<R>)
            <I> <and|or> <I>
            (<I> <+|-> <P>) % 50
        """,
        "D": """
            <Q>
            <D> <+|-> <D|P|Q>
            <D> * 0.5
            <I> / 4
            f64(<F>)
        """,
        "F": """
            f32(<half>)
            <F> <+|-> <F|F|P|Q>
            <P|Q> <+|-> <F>
            <F> * <0.5|-1|2>
            <V>[<-3..2>]
            <V>.max()
            maximum(<F>, <F>)
            f32(<I>)
            descend(<I> % 6, <F>)
        """,
        "V": """
            <V> <+|-> <V|F|P|Q>
            <V> * 0.5
            where(<V> > <V|F|P>, <V>, <V>)
            <V>[::-1]
            stack([<F>, <F>, <F>])
            stack([<F> + k for k in range(3)])
            <W>.astype(f32)
        """,
        "W": """
            (<W> <+|-|*> <W|I|P>) % 13
            <W> // 2
            where(<W> > <W|I|P>, <W>, <W>)
            stack([<W>[2 - k] for k in range(3)])
        """,
        "L": "Cons(<I>, <L>)",
        "R": "Node(<R>, <R>)\nLeaf(<F>)\nmirrored(<R>)",
        "B": """
            <NUMBER> <compare> <NUMBER>
            <NUMBER> <compare> <-1..5>
            not <B>
            <B> <and|or> <B>
            <B> and <B> and <B>
            <-3..3> <less> <NUMBER> <compare> <NUMBER>
            (<V> <compare> <V|F>).<any|all>()
            bool(<I> % 2)
        """,
        "less": words("< <="),
        "half": "<0..3><.0|.5>",
        "leaf P": "<0..6>",
        "leaf I": "<0..6>\ni64(<0..6>)",
        "leaf Q": "<half>",
        "leaf D": "<half>\nf64(<0..1>.25)",
        "leaf F": "f32(<half>)",
        "leaf B": "True\nFalse",
        "leaf V": "zeros((3,), f32)",
        "leaf W": "ones((3,), i64)",
        "leaf L": "Nil()",
        "leaf R": "Leaf(f32(<half>))",
    },
    kinds={
        "KIND": "PPPIIIQDFFFVVWBLR",
        "PARAMS": "IIFFVDWBLR",
        "RESULTS": "IDFVWBIFP",
        "WALRUS": "PIFVDW",
        "COUNT": "PI",
        "TYPED": "IFFVDB",
        "LOOSE": "IFPVQ",
        "RESULT": "IFFVDB",
        "LAMBDA": "FFFIPV",
        "NUMBER": "PPIIIFFDQ",
    },
    types={
        "I": "i64",
        "D": "f64",
        "F": "f32",
        "B": "bool_",
        "V": "Tensor[(3,), f32]",
        "W": "Tensor[(3,), i64]",
        "L": "List",
        "R": "Tree",
    },
    fits={"I": "IP", "D": "DQ"},
    expressions={
        "3* <call KIND>": "IFVDB",
        "1.3* <KIND 1> if <condition> else <KIND 1>": "PQIDFVWB",
        "0.5* [outside] <fresh> := <KIND>": "PIFVDW",
    },
)


def write(seed: int) -> Program:
    """Return the program of a seed."""
    chance = seeded("language", seed)
    writer = Writer(_GRAMMAR, chance, size=chance.randint(6, 40))
    source = _TYPES + writer.program()
    calls = tuple(tuple(_argument(chance, param.kind) for param in writer.params) for _ in range(4))
    return Program("language", seed, source, calls, RULES)


def _argument(chance: random.Random, kind: str) -> object:
    if kind == "L":
        items = AdtValue("Nil")
        for _ in range(chance.randint(0, 4)):
            items = AdtValue("Cons", (np.asarray(chance.randint(0, 5)), items))
        return items
    if kind == "R":
        return _tree(chance, 3)
    quarters = [number / 4 for number in range(-8, 9)]
    shape, dtype, values = {
        "I": ((), "i8", range(-4, 10)),
        "D": ((), "f8", quarters),
        "F": ((), "f4", quarters),
        "B": ((), "?", (0, 1)),
        "V": ((3,), "f4", quarters),
        "W": ((3,), "i8", range(-5, 10)),
    }[kind]
    return choose(chance, shape, dtype, values)


def _tree(chance: random.Random, depth: int) -> AdtValue:
    if depth == 0 or chance.random() < 0.3:
        return AdtValue("Leaf", (np.asarray(chance.randint(-4, 4) / 2, np.float32),))
    return AdtValue("Node", (_tree(chance, depth - 1), _tree(chance, depth - 1)))


#: A name of memory that was changed by another name cannot be read: programs know nothing of it.
RULES = Rules(rtol=1e-5, refusals=("which NumPy would have changed, too",))
FAMILY = Family("language", write, ("module", "numpy", "relax"))
