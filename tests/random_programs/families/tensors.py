"""Cells that compute with tensors of dimensions that only a call knows, with branches and loops.

Numbers stay small integers, so that every order of operations gives the same.
"""

from __future__ import annotations

from dataclasses import replace

from tests.random_programs.families.vocabulary import CELL, RULES, VocabularyWriter
from tests.random_programs.program import Family, Program, seeded
from tests.random_programs.step_writer import Profile
from tests.random_programs.writer import Grammar, words

#: The sizes of the named dimensions, call by call.
_SIZES = {"n": (3, 1, 0, 4, 17, 1, 8), "m": (5, 1, 4, 0, 2, 33, 64)}

_FORMS = {
    "add": ("<x:fi> + <y>", "(<x:fi> + <y>) % 7 - <x>"),
    "subtract": ("<y> - <x:fi>", "<x:fi> % 3 - 1"),
    "multiply": ("(<x:fi> * <y>) % 5",),
    "maximum": ("maximum(<x:fi>, <y>)", "minimum(<y>, <x:fi>)", "clip(<x:fi>, -2, 2)"),
    "negative": ("-<x:fi>", "abs(<x:fi>)", "<x:fi> // 2"),
    "compare": ("<x:fi> <compare> <y>", "~(<x:fi> <compare> <y>)"),
    "where": ("where(<mask>, <x:fi>, <y>)",),
    "sum": (
        "<x:fi>.sum() % 11",
        "<x:fi 1-4>.sum(axis=<axis>) % 11",
        "<x:fi 1-4>.sum(axis=<axis>, keepdims=True) % 11",
    ),
    "cumsum": ("cumsum(<x:fi 1-4>, axis=<axis>) % 11",),
    "max": (
        "<x:fi>.<max|min>()",
        "<x:fi 1-4>.<max|min>(axis=<axis>)",
        "<x:fi 1-4>.<max|min>(axis=<axis>, keepdims=True)",
    ),
    "any": (
        "<x:b>.<every>()",
        "<x:b 1-4>.<every>(axis=<axis>)",
        "<x:b 1-4>.<every>(axis=<axis>, keepdims=True)",
    ),
    "argmax": ("<argmax|argmin>(<x: 1-4>, axis=<axis>)",),
    "subscript": ("<x: 1-4>[<subscript>]",),
    "transpose": ("<x: 1-4>.T",),
    "reshape": ("<x: 1-4>.reshape(-1)",),
    "flip": ("flip(<x: 1-4>, 0)",),
    "repeat": ("repeat(<x: 1-4>, 2, axis=0)",),
    "stack": ("stack((<x: 1-3>, <same>), 0)",),
    "concatenate": ("concatenate((<x: 1-4>, <same>), 0)",),
    "operator @": ("((<x:f 2>) % 3 @ (<matrix> % 3)) % 7", "((<x:f 2> % 3) @ (<x> % 3).T) % 7"),
    "branch": (
        """
        if <any>.sum() > <-3..3>:
            RESULT = <x:fi> + <1..3>
        else:
            RESULT = <x> - <y>
        """,
    ),
    "loop": (
        """
        RESULT = <x:fi>
        for k in range(<1..4>):
            RESULT = (RESULT * <1..2> + <y>) % 5 - k
        """,
    ),
    "rows": (
        """
        RESULT = <x:fi 1-4>.sum(axis=0) * 0
        for k in range(<x>.shape[0]):
            RESULT = (RESULT + <x>[k]) % 9
        """,
    ),
}
PROFILE = Profile(
    CELL,
    forms={
        name: [form.strip().replace("\n        ", "\n") for form in forms] for name, forms in _FORMS.items()
    },
    kinds={"f": ("f32",), "i": ("i64",), "b": ("bool_",)},
    letters="fffib",
    dims=(3, 1),
    more_dims=(3, 1),
    values={"f": range(-2, 3), "i": range(-2, 3), "b": (0, 1)},
    grammar=Grammar({"compare": words("< <= > >= == !="), "every": words("any all")}),
    weights={
        **dict.fromkeys(("add", "subtract", "multiply", "maximum", "negative"), 0.6),
        **dict.fromkeys(("sum", "max", "any"), 0.7),
        **dict.fromkeys(("transpose", "reshape", "flip", "repeat"), 0.25),
        **dict.fromkeys(("stack", "concatenate"), 0.5),
        "subscript": 2,
    },
)


def writer(seed: int) -> VocabularyWriter:
    """Return the writer of a seed, which has written nothing yet."""
    return VocabularyWriter(PROFILE, seeded("tensors", seed), _SIZES, named=0.67, calls=7)


def write(seed: int) -> Program:
    """Return the program of a seed."""
    made = writer(seed)
    for _ in range(made.random.randint(3, 14)):
        made.statement()
    return replace(made.steps(), fused=made.chance(0.5)).program("tensors", seed, RULES)


FAMILY = Family("tensors", write, ("steps",))
