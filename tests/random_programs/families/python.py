"""Programs in plain Python: lists, dictionaries, sets, objects, closures, defaults, and all kinds of loops.

Names keep one kind for life: P is an int, Q a float, B a truth value, L a list of ints, G a list of three
lists, H a list of two lists of three, D a dictionary, S a set, T an object, X, Y and U vectors of floats,
ints and bytes. It must give what Python gives, or raise what Python raises.
"""

from __future__ import annotations

import numpy as np

from tests.random_programs.program import Family, Program, Rules, seeded
from tests.random_programs.writer import Grammar, Writer, words

_TALLY = """class Tally:
    def __init__(self, start):
        self.value = start
        self.seen = []

    def add(self, v, scale=3):
        self.value = (self.value * scale + v) % 101
        if v > 1:
            self.seen.append(v)
        return self.value

"""
_STATEMENTS = """
    4* <new P> = <P>

    4* <own P> = <P>

    2* <own P> <+|-|*>= <P 2> % 9

    0.7* <own P> <augment> <1..3>

    1.5* <new Q> = <Q>

    1.5* <own Q> = <Q>

    <a=own P>, <b=own P> = <b>, <P 1>

    0.5* <new P>, *<new L> = <P 1>, <P 1>, <P 1>

    0.5* <new P>, (<new P>, <new Q>) = <P 1>, (<P 1>, <Q 1>)

    0.5* <a=new P> = <b=new P> = <P 1>

    0.5* <new P>, <new P> = divmod(<P 1>, <divisor>)

    2.5* [flat] <new L> = <list>

    0.7* [flat] <own L> = <list>

    4* <own L>.append(<P>)

    1.2* if <l=own L>:
        <new P> = <l>.pop(<|0|-1>)
        <block 0-2>

    0.7* <own L>.insert(<P 1> % 3, <P 1>)

    0.7* <own L>.extend(<list>)

    0.6* <own L>.<sort()|reverse()|sort(reverse=True)>

    0.3* <own L>.clear()

    1.5* if len(<l=own L>) > <1..2>:
        <l>[<0|-1|-2|1>] <assign> <P 1>

    0.6* [top] <new G> = [[], <list>, [<P>]]

    0.6* [top] <new G> = [[] for _ in range(3)]

    1.5* <own G>[<P 1> % 3].append(<P 1>)

    0.6* <own G>[<0..2>].<sort()|reverse()|extend([1, 2])>

    0.8* [top] <new H> = [[0] * 3 for _ in range(2)]

    0.4* [top] <new H> = [[<P 1>, 1, <P 1>], [0, <P 1>, 5]]

    1.5* <name H>[<P 1> % 2][<P 1> % 3] <assign> <P 1>

    [top] <new D> = <{}|{1: 2, 5: 0}|dict()>

    0.5* [top] <new D> = {<v=fresh>: <v> * <v> for <v> in <items>}

    2* <own D>[<P 1> % 5] = <P 1>

    <d=own D>[<k=P 1>] = <d>.get(<k>, <0..2>) <+|-> <P 1>

    0.7* <new P> = <own D>.pop(<P 1> % 5, <0..3>)

    0.7* if <k=name P> in <d=own D>:
        del <d>[<k>]

    0.5* <new P> = <own D>.setdefault(<P 1> % 3, <P 1>)

    0.7* [top] <new S> = <set()|{1, 2, 2}>

    0.5* [top] <new S> = set(<L 1>)

    1.4* <own S>.<add|discard|add>(<P 1> % 7)

    0.6* [top] <new T> = Tally(<P 1>)

    <name T>.add(<P 1>)

    0.5* <new P> = <name T>.add(<P 1>)

    <new X> = <X>

    <own X> = <X>

    <new Y> = <Y>

    0.5* <new U> = <U>

    0.8* <x=new X> = <X> + 0.0
    <x>[<slice>] <assign> <Q>
    ? <x>[<slice>] <assign> <x>[<0|-1>]
    ? <x>[<x> > <Q 1>] <assign> <half>

    0.8* <y=new Y> = <Y> + 0
    <y>[<0|-1>] <assign> <P 1>
    ? <y> <augment> <1..3>
    ? <y>[<y> % 2 == <0..1>] = <P 1>
    ? <y>[::<2|-1>] += <P 1>

    0.4* <u=new U> = <U> + 1
    <u> <augment> <1..3>

    4* [shallow] if <condition>:
        <block 1-3>
    ? elif <condition>:
        <block 1-2>
    ? else:
        <block 1-3>

    1.4* [shallow] if <condition>:
        <s=new PQ1> = <PQ1>
        <block 0-2>
    else:
        <bound s PQ1> = <PQ1>
        <block 0-2>

    5* [shallow] for <iteration>:
        <block 1-4>
    ? else:
        <block 1-2>

    2* [shallow] <n=counter P> = <P 1> % <3..9>
    while <n> > 0 <|more>:
        <n> -= <1..2>
        <block 1-4>
    ? else:
        <block 1-2>

    0.6* [shallow] <n=counter P> = <0..3>
    while True:
        if <n> >= <3..5>:
            break
        <n> += 1
        <block 1-3>

    0.8* [shallow] <w=fresh> = <list>
    while <w>:
        <new P> = <w>.pop(<|0>)
        <block 1-3>

    1.5* [shallow] for <iteration>:
        if <condition>:
            <s=own P> = <P>
            break
        <block 0-2>
    else:
        <own P> = <P>

    0.9* [shallow flat] def <function PQ1>(<param PQ2>):
        <block 0-2>
        return <results>

    0.5* [shallow flat] def <function P>(<param P>, <param P>):
        if <B>:
            return <P 1>
        <block 0-1>
        return <results>

    1.2* [shallow flat] <function PQ1> = lambda <param PQ1>: <PQ1 1>

    0.5* [top main] def <g=fresh>(d):
        nonlocal <a=own P>
        <a> = (<a> * 2 + d) % 97
    <g>(<P 1>)
    if <B 1>:
        <g>(<P 1>)

    0.5* [top main] <l=new L> = <list>
    def <g=fresh>(d, k=<0..3>):
        if d > k:
            <l>.append(d - k)
    <g>(<P 1>)
    for <v=fresh> in list(<items>):
        <g>(<v>, <P 1>)

    0.8* [shallow] match <P 1> % 4:
        case 0:
            <block 1-2>
        case 1 | 2 if <B 1>:
            <block 1-2>
        case <param P>:
            <block 1-2>

    [nested] return <results>

    0.6* [loop] break

    0.6* [loop] continue

    0.5* [loop] if <condition>:
        <break|continue>
"""

_GRAMMAR = Grammar(
    {
        "program": """
            <room 2-2>
            def h0(<alone><returns int 1-1><named P p>, <named P q>=<-3..3>):
                <block 0-2>
                return <results>
            <room 2-2>
            def h1(<alone><returns int 1-1>*rest):
                <named L items> = list(rest)
                <block 0-1>
                return <results>
            <room 2-2>
            def h2(<alone><returns int 1-1><fixed_items>, <named P start>=0, *, <named P scale>=<1..3>):
                for v in items:
                    if v > scale:
                        return start
                    start = (start + v * scale) % 50
                <block 0-1>
                return <results>
            <room 5-22 main>
            def f(<returns results 2-3><parameters>):
                <block 3-9>
                return <results>
        """,
        "fixed_items": "<i=named L items><fix i>",
        "parameters": (
            '<named P a>: i64, <named P b>: i64, <named Q c>: f64, <named X x>: Tensor[("n",), f64], '
            '<named Y y>: Tensor[("n",), i64], <named U u>: Tensor[("n",), u8]'
        ),
        "statement": _STATEMENTS,
        "iteration": """
            3* <new P> in range(<0..5>)
            2* <new P> in range(<P 1> % 5)
            <new P> in range(<P 1> % 4, <2..9>, <1..3>)
            <new P> in range(<3..6>, <P 1> % 5 - 3, -<1..2>)
            <new P> in reversed(range(<P 1> % 6))
            2* <new P> in <over>
            <new P> in <name L>[<slice>]
            2* <new P>, <new P> in enumerate(<over><|, 1>)
            <new P>, <new P> in zip(<over>, <over>)
            <new P>, <new P> in <kept D>.items()
            <new P> in sorted(<name DS>)
            <new P> in <kept G>[<P 1> % 3]
            <new P> in (<P 1>, <P 1>, <0..9>)
            <new Q> in <name X>
            <new P> in <name Y>[<slice>]
            <new P> in [e for e in range(3)]
        """,
        "over": "3* <kept L>\n<list>\n<kept G>[<0..2>]\n<name Y>",
        "items": "3* <name L>\n<list>\n<name G>[<0..2>]\n<name Y>",
        "list": """
            []
            [<P>]
            [<P>, <P>, <P>]
            2* list(<L>)
            <L>[<slice>]
            [<0..1>] * (<P 1> % 4)
            <L> + <L>
            <L> * 2
            sorted(<L><|, reverse=True|, key=lambda e: -e|, key=lambda e: (e % 3, e)>)
            list(reversed(<L>))
            list(range(<P 1> % 5))
            [v <+|-|*> <P 1> for v in <items>]
            [v for v in <items> if v <compare> <P 1>]
            [i * v for i, v in enumerate(<items>)]
            [v + w for v in range(<1..3>) for w in range(<1..3>) if v <compare> w]
            [v if v <compare> 2 else <P 1> for v in <L>]
            [min(v, w) for v, w in zip(<L>, <L>)]
            sorted(<name DS>)
            2* [len(r) for r in <name GH>]
            [sum(r) for r in <name GH>]
        """,
        "more": "and <B 1>\nand not <B 1>",
        "condition": "6* <B>\n<P 1>\n<name L>\n<name D>\nnot <name L>",
        "compare": words("< <= > >= == !="),
        "assign": words("= = += -="),
        "augment": words("//= %= <<= >>= &= ^= |= += -="),
        "divisor": "2\n3\n-2\n-3\n7",
        "half": "<-3..3><.0|.5>",
        "slice": """
            <end>:<end>
            <end>:<end>:<2|-1|-2|3>
            ::<2|-1|-2>
            <P 1> % 4:
            :-<1..2>
        """,
        "end": "2* <|>\n<-4..4>",
        "P": """
            <-3..6>
            2* (<P> <+|-|*> <P>) % <7|11|97>
            (<P> <+|-|*> <P>) % -<5|13>
            2* <P> // <divisor>
            <P> % <divisor>
            -<P>
            <P> >> <0..3>
            (<P> & 15) << <0..3>
            <P> <bits> <P>
            ~<P>
            abs(<P>)
            int(<Q>)
            <P> <and|or> <P>
            <P 1> if <B 1> else <P 1>
            <min|max>(<P>, <P>)
            (<P>, <P>)[<0|1|-1>]
            len(<L>)
            sum(<L>)
            <L>.count(<P>)
            max(<L>, default=<P>)
            min([<P>, <P>, <P>], key=lambda e: e * e % 5)
            sum(v * v for v in <items> if v % 2)
            sum(1 for v in <items> if <P 1> < v <= <P 1>)
            len(<name GDS>)
            len(<name G>[<P 1> % 3])
            sum(<name G>[<0..2>])
            <name H>[<P 1> % 2][<P 1> % 3]
            sum(<name H>[<P 1> % 2])
            <name D>.get(<P>, <P>)
            sum(<name D>.<keys|values>())
            <name T>.value
            len(<name T>.seen)
            sum(<name T>.seen)
            <name Y>[<0|-1>]
            <Y>.<sum|max|min>() % 31
            pow(int(<P 1>) & 7, <0..3>, 11)
            [main] h0(<P 1>)
            [main] h0(<P 1>, <P 1>)
            [main] h0(q=<P 1>, p=<P 1>)
            [main] h1(<P 1>, <P 1>)
            [main] h2(<L 1>)
            [main] h2(<L 1>, <P 1>, scale=<1..4>)
            [main] h2(<L 1>, scale=<P 1>)
            bool(<P>) + 1
            2* <call P>
        """,
        "Q": """
            <half>
            <Q> <+|-> <Q>
            <Q> * 0.5
            <P> / 4
            <P> * <half>
            <Q> // <1.5|2.0|-0.5>
            <Q> % <1.5|2.0|-0.5>
            abs(<Q>)
            float(<P>)
            -<Q>
            <min|max>(<Q>, <Q>)
            <Q 1> if <B 1> else <Q 1>
            <name X>[<0|-1>]
            <X>.<sum|max|min>()
            0.5* float(round(<Q>))
            <call Q>
        """,
        "B": """
            3* <P> <compare> <P>
            <Q> <compare> <Q>
            2* <P> <compare> <P> <compare> <P>
            <-2..3> <compare> <P> <compare> <Q> <compare> <P>
            not <B>
            2* <B> <and|or> <B>
            <P> <|not >in <L>
            <P> <|not >in <name DS>
            <P> in (<0..3>, <4..6>)
            any(v <compare> <P 1> for v in <items>)
            all(v <compare> <P 1> for v in <items>)
            (<X> <compare> <Q>).<any|all>()
            <L> == <L>
            bool(<P> % 2)
        """,
        "bits": words("& | ^"),
        "L": "<list>",
        "X": """
            <X> <+|-> <X|Q>
            <X> * <half>
            <X>[::-1]
            <Y> * 0.5
            <U> / 2
            abs(<X>)
            np.where(<X> > <Q>, <X>, <X|Q>)
            np.sort(<X>)
            np.cumsum(<X>)
            np.roll(<X>, <-2..2>)
            np.clip(<X>, -1.0, 2.0)
            np.floor(<X>)
            <X> // 1.5
            <X> % -1.5
        """,
        "Y": """
            (<Y> <+|-|*> <Y|P>) % 97
            <Y> // <divisor>
            <Y> % <divisor>
            <Y> >> <0..2>
            <Y> <bits> <Y>
            (<Y> & 7) << <0..3>
            ~<Y>
            -<Y>
            <Y>[::-1]
            np.where(<Y> > <P>, <Y>, <Y|P>)
            np.argsort(<Y>, kind="stable")
            <U> + <Y>
            (<Y> <compare> <Y>) + <Y>
            np.minimum(<Y>, <P>)
        """,
        "U": """
            <U> <+|-|*> <U>
            <U> <+|*> <0..9>
            <U> // <1..3>
            <U> % <1..5>
            <U> <bits> <U>
            ~<U>
            <U>[::-1]
            <U> >> <0..3>
        """,
        "leaf P": "<-3..6>",
        "leaf Q": "<half>",
        "leaf B": "True\nFalse",
        "leaf L": "[]\n[<-3..6>]\n[<-3..6>, <-3..6>]",
        "leaf X": "np.ones(<lengths>)",
        "leaf Y": "np.arange(<lengths>)",
        "leaf U": "<name U> + 1",
        "lengths": "len(<name XYU>)",
    },
    kinds={"PQ": "PPPQ", "RESULTS": "PPQLLXYUB", "INT": "P"},
    fits={},
    reuse=(0.3, 0.4, 0.5),
    nesting=3,
)


def write(seed: int) -> Program:
    """Return the program of a seed."""
    source = _TALLY + Writer(_GRAMMAR, seeded("python", seed)).program()
    chance = np.random.default_rng(seed)
    calls = []
    for size in (4, 1, 5):
        a, b = (np.int64(each) for each in chance.integers(-9, 12, 2))
        x, y = chance.integers(-8, 8, size) * 0.25, chance.integers(-9, 9, size)
        calls.append(
            (
                a,
                b,
                np.float64(chance.integers(-8, 8) * 0.25),
                x,
                y,
                chance.integers(0, 256, size).astype("u1"),
            )
        )
    return Program("python", seed, source, tuple(calls), RULES)


#: Lists of lists and known lists that only the call can index, and what may be a list of another length.
_REFUSALS = (
    "number of items that is known",
    "tuple's index must be an int",
    "in place, which a cell cannot",
    "a tuple of",
    "only as many times as is known",
    "where a statement always computes that",
    "bound must be an int known",
    "the constructor",
    "nothing says of what type",
)
RULES = Rules(
    rtol=1e-9, errors=(IndexError, ValueError, KeyError), numpy=True, largest=1e15, refusals=_REFUSALS
)
FAMILY = Family("python", write, ("numpy", "some relax"))
