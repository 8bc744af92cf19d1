"""Functions with control flow that are differentiated, some of them twice.

Each name keeps one kind for life: S is an f64 number, V a vector of three, M a matrix with rows of three, T
a tree of numbers.
Values stay small: each assignment goes through a bounded function.
"""

from __future__ import annotations

import numpy as np

from nnmagic.relay.values import AdtValue
from tests.random_programs.program import Family, Program, Rules, seeded
from tests.random_programs.writer import Grammar, Writer

_ROWS = 4
_LIST = """class List:
    def Nil(): ...
    def Cons(head: i64, tail: List): ...

class Tree:
    def Leaf(value: f64): ...
    def Node(left: Tree, right: Tree): ...
    def Tagged(tag: i64, inner: Tree): ...

def folded(tree: Tree) -> f64:
    match tree:
        case Leaf(value):
            return sin(value)
        case Node(Leaf(value), right):
            return tanh(value * folded(right) + 0.3)
        case Node(left, right):
            return tanh(folded(left) + folded(right) ** 2)
        case Tagged(tag, inner):
            return 0.5 * tag * folded(inner)

def scaled(tree: Tree, by: f64) -> Tree:
    match tree:
        case Leaf(value):
            return Leaf(value * by)
        case Node(left, right):
            return Node(scaled(right, by), scaled(left, sin(by)))
        case Tagged(_, inner):
            return scaled(inner, by)

def slope(tree: Tree) -> Tree:
    return grad(folded)(tree)

@custom_vjp
def bent(x: f64, y: f64) -> f64:
    return sin(x) * y

def bent_forward(x, y):
    return bent(x, y), (x, y)

def bent_backward(residuals, d):
    x, y = residuals
    return cos(x) * y * d, sin(x) * d

bent.defvjp(bent_forward, bent_backward)

@custom_jvp
def flat(x: f64) -> f64:
    return tanh(x)

@flat.defjvp
def flat_tangent(primals, tangents):
    return flat(primals[0]), (1 - tanh(primals[0]) ** 2) * tangents[0]

def repeat(f: Callable[[f64], f64], x: f64, n: i64) -> f64:
    return x if n <= 0 else repeat(f, tanh(f(x)), n - 1)

"""
_SECOND = """
def second(s: f64, v: Tensor[(3,), f64], m: Tensor[("n", 3), f64], k: i64, items: List):
    a, b, c = grad(f, (0, 1, 2))(s, v, m, k, items)
    return sin(a) + (b * v).sum() + tanh(c).sum()
"""
_HEAD = (
    '<named S s>: f64, <named V v>: Tensor[(3,), f64], <named M m>: Tensor[("n", 3), f64], '
    "<named c k>: i64, <named L items>: List"
)

_GRAMMAR = Grammar(
    {
        "program": """
            ? <+helper>
            ? <+helper>
            <+main>
        """,
        "main": f"""
            <room 14-14 main>
            def f({_HEAD}):
                <block 3-7>
                return <result>
        """,
        "helper": """
            3* <room 3-3>
            def <g=function S>(<alone><a=param S>: f64, <n=param c>: i64<fix n>) -> f64:
                if <n> <= 0:
                    return <S 1>
                <block 0-2>
                return <g>(<bounded S>, <n> - 1)

            5* <room 3-3>
            def <g=function S>(<alone><a=param S>: f64, <n=param c>: i64<fix n>) -> f64:
                if <n> <= 0:
                    return <S 1>
                <block 0-2>
                return sin(<g>(<bounded S>, <n> - 1) + <S 1>)

            2* <room 3-3>
            def <g=function S>(<alone><a=param S>: f64, <n=param c>: i64<fix n>) -> f64:
                if <n> <= 0:
                    return <S 1>
                <block 0-2>
                return sin(<g>(<bounded S>, <n> - 1) * <g>(<a> * 0.5, <n> - 2) + <S 1>)

            2* <room 3-3>
            def <g=function S>(<alone><t=param T>: Tree, <param S>: f64) -> f64:
                match <t>:
                    case Leaf(<param S>):
                        <block 0-1>
                        return <bounded S>
                    case Node(<a=param T>, <b=param T>):
                        <block 0-1>
                        return sin(<g>(<a>, <S 1>) * <g>(<b>, 0.5) + <S 1>)
                    case _:
                        return 0.3
        """,
        "statement": """
            2* <new KIND> = <bounded KIND>

            1* <new T> = <T 2>

            0.5* <own T> = <T 2>

            0.6* [shallow] match <name T>:
                case Leaf(<param S>):
                    <block 1-2>
                case Node(<param T>, <param T>):
                    <block 1-2>
                case _:
                    <block 1-1>

            1.4* <own KIND> = <bounded KIND>

            0.6* <a=own KIND> = <a> * 0.5 + <bounded KIND>

            0.8* <a=own S>, <b=own S> = <b>, <a> * 0.9

            0.2* <a=own S> = -<a>

            0.8* <y=new V> = <name V> + 0.0
            <y>[<third>] <assign> <bounded S>
            ? <y>[<y> > <number>] <assign> <number>
            ? <y>[<third>] <assign> <bounded S>

            0.8* <y=new M> = <name M> + 0.0
            <y>[<fourth>] <assign> <bounded V>
            ? <y>[<y> > <number>] <assign> <number>
            ? <y>[<fourth>] <assign> <bounded V>

            0.8* [shallow] if <condition>:
                <block 1-2>

            0.9* [shallow] if <condition>:
                <x=new SHARED> = <bounded SHARED>
                <block 1-2>
            else:
                <bound x SHARED> = <bounded SHARED>
                <block 1-2>

            0.3* [shallow loop] if <condition>:
                <block 1-2>
                <break|continue>

            2* [shallow] for <counter c> in <rounds>:
                <block 1-3>

            0.4* [shallow] for <new V> in <name M>:
                <block 1-3>

            [shallow] <c=new c> = i64(0)
            while <x=own S> ** 2 > 0.<10..30> and <c> < <2..6>:
                <x> = <x> * 0.7
                <c> += 1
                <block 1-2>

            [shallow] match <name L>:
                case Nil():
                    <block 1-1>
                case Cons(<param c>, Nil()):
                    <block 1-1>
                case Cons(<param c>, <param L>):
                    <block 1-1>

            [shallow main] if <condition>:
                return <S 1> + (<V 2> * <name V>).sum() + <name M>.sum() * 0.3

            [top main] <u=function S> = lambda <param S>: <S 1>
            <+apply>

            [top main] def <function S>(<a=param S><|: f64>):
                <x=new S> = <bounded S>
                return <S 1> + <a> * <x>
            <+apply>
        """,
        "apply": """
            2* <new S> = tanh((<closure> if <condition> else <closure>)(<name S>))

            2* <new S> = tanh([<closure>, sin, <closure>][<name c> % 3](<name S>))

            2* <new S> = repeat(<closure>, <name S>, <name c> % 3)

            7* <new S> = tanh(<f=closure>(<name S>))

            3* <x=new S> = tanh(<f=closure>(<name S>))
            <x> = grad(lambda z: sin(<f>(z)))(<x>)
        """,
        "closure": "<function_of S>",
        "result": """
            <S 1> + (<V 2> * <name V>).sum()
            <S 1> + (<V 2> * <name V>).sum() + <name M>.sum() * 0.3
        """,
        "rounds": """
            range(<1..3>)
            range(<65|67>)
            range(<name M>.shape[0])
            range(<name c>)
            range(<name c> % 3, <name c>)
            reversed(range(<name c> % 5))
        """,
        "bounded": "sin(<KIND 1>)\ntanh(<KIND 1>)\n<a=KIND 1> / (1 + <a> ** 2)",
        "condition": """
            <S 2> > <number>
            <name V>.sum() < <number>
            <name S> > <number> and <name S> < 1.2
            2* <name c> % 2 == <0..1>
        """,
        "assign": "2* =\n+=\n*=",
        "number": "-0.<10..99>\n0.<10..99>\n0.<10..99>\n1.<10..50>",
        "third": "3* <name c> % 3\n2* <0..2>",
        "fourth": "3* <name c> % 4\n2* <0..2>",
        "S": """
            <S> + <S>
            <S> * <S>
            <S> - <number>
            <sin|cos|tanh|sigmoid|softplus|arctan>(<S>)
            exp(-<S> ** 2)
            sqrt(1 + <S> ** 2)
            log1p(<S> ** 2)
            hypot(<S>, 1.5)
            <V>.<sum|mean|max|prod>()
            <V> @ <V>
            <V>[<third>]
            <M>[<fourth>, <third>]
            <M>.mean()
            logsumexp(<V>)
            norm(<V> + 3)
            maximum(<S>, <S>)
            abs(<S>)
            <S> * <name c> * 0.25
            <S 1> if <condition> else <S 1>
            0.6* bent(<S 1>, sin(<S>))
            0.5* flat(<S 1>)
            0.3* checkpoint(<function_of Sc S>, every=<1..3>)(sin(<S>), <name c> % 4)
            0.7* folded(<T 1>)
            0.3* folded(slope(<T 1>))
            0.6* <function_of TS S>(<T 1>, sin(<S>))
            1.5* <function_of S>(sin(<S>))
            1.5* <function_of Sc S>(sin(<S>), <name c> % 4)
            0.5* <function_of Sc S>(sin(<S>), i64(3))
        """,
        "V": """
            <V> <+|-|*> <V|S>
            <sin|tanh|softplus|relu|softmax>(<V>)
            where(<V> > <number>, <V>, <V>)
            <V>[::-1]
            <V>.cumsum()
            stack([<S>, <S>, <S>])
            <M>[<fourth>]
            <M>.<sum|mean|max>(axis=0)
            <M>.T @ (<M> @ <V>) * 0.1
            roll(<V>, 1)
            concatenate([<V>[1:], <V>[:1]])
            <V 1> if <condition> else <V 1>
        """,
        "M": """
            <M> <+|-|*> <M|V|S>
            <sin|tanh|softmax>(<M>)
            <M> * <V>
            <M>[::-1]
            where(<M> > <number>, <M>, <M>)
            <M 1> if <condition> else <M 1>
        """,
        "T": """
            2* <name T>
            Leaf(<bounded S>)
            Node(<T>, <T>)
            Node(<T>, Leaf(<name S>))
            0.5* Tagged(<name c> % 3, <T>)
            0.6* scaled(<T>, <S 1>)
            0.3* slope(<T 1>)
            0.5* <T 1> if <condition> else <T 1>
        """,
        "leaf S": "<number>",
        "leaf T": "Leaf(0.<10..99>)",
        "leaf V": "full((3,), 0.3, f64)",
        "leaf M": "ones((4, 3), f64)",
    },
    kinds={"KIND": "SSVVM", "SHARED": "SV"},
    reuse=(0.25, 0.25, 0.25),
    nesting=3,
)


def write(seed: int) -> Program:
    """Return the program of a seed; every third is differentiated twice."""
    chance = seeded("gradients", seed)
    source = _LIST + Writer(_GRAMMAR, chance).program() + (_SECOND if seed % 3 == 2 else "")
    calls = []
    for _ in range(9):
        items = AdtValue("Nil")
        for _ in range(chance.randint(0, 2)):
            items = AdtValue("Cons", (np.asarray(chance.randint(0, 4)), items))
        numbers = [np.array([chance.gauss(0, 1) for _ in range(size)]) for size in (1, 3, _ROWS * 3)]
        s, v, m = float(numbers[0][0]), numbers[1], numbers[2].reshape(_ROWS, 3)
        calls.append((s, v, m, chance.randint(0, 4), items))
    return Program("gradients", seed, source, tuple(calls), RULES)


RULES = Rules(rtol=1e-9)
FAMILY = Family("gradients", write, ("differences",))
