"""Branches, loops, calls and recursion over numbers of all dtypes and tensors of named sizes.

Each name keeps one kind for life. Integers wrap around; floats are small whole numbers, which are exact in
any order.
"""

from __future__ import annotations

import random

import numpy as np

from tests.random_programs.program import Family, Program, Rules, choose, seeded
from tests.random_programs.writer import Grammar, Writer, words

_ALL = "iiijauqwfffdhbVVVVWWXMMNS"
_NUMBERS = "iiijauqwfffdhb"
#: The dtype of each kind of single numbers; the dimensions and the dtype of each kind of tensors.
_DTYPES = {
    "i": "i8",
    "j": "i4",
    "a": "i1",
    "u": "u1",
    "q": "u8",
    "w": "u4",
    "f": "f4",
    "d": "f8",
    "h": "f2",
    "b": "?",
}
_TENSORS = {
    "V": ("n", "f4"),
    "W": ("n", "i8"),
    "X": ("n", "?"),
    "M": ("nm", "f4"),
    "N": ("m", "i4"),
    "S": ("4", "f4"),
}

_INTEGERS = """
    <KIND> <+|-|*> <KIND>
    <KIND> <+|-|*> <0..7>
    <0..7> - <KIND>
    -<KIND>
    <KIND> <//|%> <KIND>
    <KIND> <//|%> <1..7>
    <KIND> <bits> <KIND>
    maximum(<KIND>, <KIND>)
    abs(<KIND>)
    <type KIND>(<INTEGER>)
    where(<b>, <KIND>, <KIND>)
    <KIND 1> if <b 1> else <KIND 1>
"""
_FLOATS = """
    (<KIND> <+|-> <KIND>) % 16
    (<KIND> * <2|3|-1>) % 16
    floor(<KIND> * 0.5)
    maximum(<KIND>, <KIND>)
    <type KIND>(<i> % 16)
    <type KIND>(<FLOAT>)
    where(<b>, <KIND>, <KIND>)
    <KIND 1> if <b 1> else <KIND 1>
"""
_GRAMMAR = Grammar(
    {
        "program": """
            ? <+helper>
            ? <+helper>
            <+main>
        """,
        "main": """
            4* <room 5-16 main>
            def f<returns all 1-3>(<typed i>, <params all 3-5>, <typed V>, <typed V>, <typed MATRIX>)<arrow>:
                <block 3-7>
                return <results>

            <room 5-16 main>
            def f<returns all 1-3>(<typed i>, <params all 3-5>, <typed ROW>, <typed MATRIX>)<arrow>:
                <block 3-7>
                return <results>
        """,
        "helper": """
            <room 4-4>
            def <function><returns numbers 1-2>(<params numbers 1-2>)<arrow>:
                <block 3-7>
                return <results>

            <room 4-4>
            def <function><returns all 1-2>(<params all 1-2>, <typed ROW>, <typed M>)<arrow>:
                <block 3-7>
                return <results>

            <room 4-4>
            def <recursive><returns numbers 1-2>(<countdown k>, <params numbers 1-2>)<arrow>:
                if <first> <= 0:
                    return <results>
                <block 0-2>
                <+recursion>

            2* <room 4-4>
            def <recursive><returns all 1-2>(<countdown k>, <params all 1-2>, <typed ROW>, <typed M>)<arrow>:
                if <first> <= 0:
                    return <results>
                <block 0-2>
                <+recursion>
        """,
        "recursion": """
            return <itself>(<first> - 1, <given self>)

            if <b 1>:
                return <itself>(<first> - 1, <given self>)
            return <itself>(<first> - 2, <given self>)

            <targets self> = <itself>(<first> - 1, <given self>)
            return <results>

            <targets self> = <itself>(<first> - 1, <given self>)
            if <b 1>:
                <targets self> = <itself>(<first> - 2, <given self>)
                return <results>
            return <results>
        """,
        "statement": """
            3.5* <own ALL> = <ALL>

            1.5* <new ALL> = <ALL>

            5* <+rotate>

            3* <targets> = <callee>(<given>)

            0.6* [main] assert <b 1> or <i 2> % 5 < 4

            3* [shallow] if <b 1>:
                <block 1-3>
            ? elif <b 1>:
                <block 1-3>
            ? else:
                <block 1-3>

            2* [shallow] if <b 1>:
                <s=new ALL> = <ALL 1>
                <block 0-3>
            ? elif <b 1>:
                <bound s ALL> = <ALL 1>
                <block 0-3>
            else:
                <bound s ALL> = <ALL 1>
                <block 0-3>

            4* [shallow] for <c=fresh> in range(<bounds>):
                <new i> = i64(<c>)
                ? <+rotate>
                <block 1-4>

            3* [shallow] <n=counter i> = <i 2> % 6
            while <n> > 0 <more>:
                <n> = <n> - 1
                ? <+rotate>
                <block 1-4>

            0.6* [loop] break

            0.6* [loop] continue

            0.5* [nested] return <results>
        """,
        "rotate": """
            2* <a=own TENSOR>, <b=own TENSOR> = <b>, <a>

            <a=own TENSOR>, <b=own TENSOR> = <b>, <TENSOR 1>

            2* <a=own TENSOR>, <b=own TENSOR>, <c=own TENSOR> = <b>, <c>, <a>

            <a=own TENSOR>, <b=own TENSOR>, <c=own TENSOR> = <TENSOR 1>, <c>, <a>

            <a=own TENSOR>, <b=own TENSOR>, <c=own TENSOR>, <d=own TENSOR> = <c>, <TENSOR 1>, <d>, <a>

            <a=own ALL>, <b=own ALL> = <b>, <ALL 1|a>
        """,
        "more": "2* <|>\nand (<b 1>)\nand not (<b 1>)",
        "bounds": """
            <i 2> % 6
            <i 2> % 3, <i 2> % 8, 2
            <i 2> % 7, 0, -1
            <2..3>
            66
        """,
        "compare": words("< <= > >= == !="),
        "bits": words("& | ^"),
        "i": "i64(<f>)\n<W>.sum()",
        "j": "i32(<f>)",
        "f": "<S>[<i> % 4]\n<S>[-1]\n<V>.sum() % 16",
        "k": "<i> % 5",
        "b": """
            2* <NUMBER> <compare> <NUMBER>
            <NUMBER> <compare> <0..5>
            <NUMBER> + 1 <compare> <NUMBER>
            not <b>
            <b> <and|or> <b>
            0 <= <i> <compare> <i>
            (<V> > 2).<any|all>()
            <X>.any()
            <b 1> if <b 1> else <b 1>
        """,
        "V": """
            (<V> <+|-> <V|V|f>) % 16
            floor(<V> * 0.5)
            where(<X>, <V>, <V>)
            <V>[::-1]
            cumsum(<V>) % 16
            f32(<W> % 16)
            <M>.sum(axis=1) % 16
            where(<b>, <V>, <V>)
            <V 1> if <b 1> else <V 1>
        """,
        "W": """
            <W> <+|-|*> <W|W|i>
            <W> // <2..5>
            where(<X>, <W>, <W>)
            cumsum(<W>)
            i64(<V>)
            -<W>
            <W 1> if <b 1> else <W 1>
        """,
        "X": "5* <V> <compare> <V>\n5* <W> <compare> <W>\n<X 1> if <b 1> else <X 1>",
        "M": """
            (<M> <+|-> <M|M|f>) % 16
            floor(<M> * 0.5)
            (<M> + f32(<N> % 16)) % 16
            <M>[:, ::-1]
            where(<M> > <f>, <M>, <M>)
            cumsum(<M>, axis=<0..1>) % 16
            <M 1> if <b 1> else <M 1>
        """,
        "N": """
            <N> <+|-|*> <N|N|j>
            <N> // <2..5>
            i32(<M>.sum(axis=0))
            maximum(<N>, <N>)
            <N 1> if <b 1> else <N 1>
        """,
        "S": """
            (<S> <+|-> <S|S|f>) % 16
            floor(<S> * 0.5)
            stack([<f>, <f>, <f>, <f>])
            <S>[::-1]
            where(<S> > 3, <S>, <S>)
            <S 1> if <b 1> else <S 1>
        """,
        "leaf": "<type KIND>(<0..5>)",
        "leaf b": "3* <name ijf> > <0..5>\ni64(3) > <0..5>",
        "leaf V": "3* f32(<name VWX>) * 0 + <0..5>\n<name M>.sum(axis=1) * 0 + <0..5>",
        "leaf W": "3* i64(<name VWX>) * 0 + <0..5>\ni64(<name M>.sum(axis=1) * 0 + <0..5>)",
        "leaf X": "3* i64(<name VWX>) * 0 > <-3..2>\n<name M>.sum(axis=1) * 0 + <0..5> > 2",
        "leaf M": "(i32(<name VWX>).reshape((-1, 1)) + <name N>).astype(f32) * 0 + <0..5>",
        "leaf N": "i32(<name M>.sum(axis=0)) * 0 + <0..5>",
        "leaf S": "ones((4,), f32) * <0..5>",
    },
    kinds={
        "ALL": _ALL,
        "KIND": _ALL,
        "NUMBERS": _NUMBERS,
        "INTEGER": "ijauqw",
        "FLOAT": "fdh",
        "NUMBER": "ijauqwfdhiif",
        "TENSOR": "VVVVWWXMMNS",
        "MATRIX": "MN",
        "ROW": "VWX",
    },
    types={
        "k": "i64",
        "i": "i64",
        "j": "i32",
        "a": "i8",
        "u": "u8",
        "q": "u64",
        "w": "u32",
        "f": "f32",
        "d": "f64",
        "h": "f16",
        "b": "bool_",
        "V": 'Tensor[("n",), f32]',
        "W": 'Tensor[("n",), i64]',
        "X": 'Tensor[("n",), bool_]',
        "M": 'Tensor[("n", "m"), f32]',
        "N": 'Tensor[("m",), i32]',
        "S": "Tensor[(4,), f32]",
    },
    fits={"i": "ik"},
    reuse=(0.3, 0.45, 0.7),
    expressions={_INTEGERS: "ijauqw", _FLOATS: "fdh"},
    nesting=3,
)


def write(seed: int) -> Program:
    """Return the program of a seed."""
    chance = seeded("control_flow", seed)
    writer = Writer(_GRAMMAR, chance)
    source = writer.program()
    calls = []
    for _ in range(5):
        sizes = {"n": chance.choice((0, 1, 2, 3, 8, 33)), "m": chance.choice((0, 1, 2, 5, 17))}
        calls.append(tuple(_argument(chance, param.kind, sizes) for param in writer.params))
    return Program("control_flow", seed, source, (*calls, calls[0]), RULES)


def _argument(chance: random.Random, kind: str, sizes: dict[str, int]) -> np.ndarray:
    dims, text = _TENSORS.get(kind, ("", _DTYPES.get(kind, "")))
    dtype = np.dtype(text)
    values = {"b": range(2), "u": range(9)}.get(dtype.kind, range(-4, 9))
    if not dims and dtype.kind in "iu" and chance.random() < 0.4:
        ends = np.iinfo(dtype)
        return np.asarray(chance.choice((ends.max, ends.max - 1, ends.min, ends.min + 1)), dtype)
    return choose(chance, [sizes.get(dim, 4) for dim in dims], dtype, values)


RULES = Rules(errors=(AssertionError, RecursionError))
FAMILY = Family("control_flow", write, ("numpy", "relax", "plain"))
