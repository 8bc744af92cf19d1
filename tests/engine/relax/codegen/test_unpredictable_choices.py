"""Choices by data that a round waits for are marked for LLVM; those that few rounds change are not."""

import textwrap

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.relax.codegen.object_code import load_llvm
from nnmagic.engine.relax.codegen.unpredictable_choices import mark_unpredictable

#: A loop over %x, of which the rounds compute %next from %last.
LOOP = """\
define i64 @f(ptr %x, i64 %n) {{
entry:
  br label %round

round:                                            ; preds = %round, %entry
  %i = phi i64 [ 0, %entry ], [ %j, %round ]
  %last = phi i64 [ 0, %entry ], [ %next, %round ], !dbg !1
  %place = getelementptr i64, ptr %x, i64 %i
  %data = load i64, ptr %place, align 8, !dbg !1
{body}
  %j = add i64 %i, 1
  %done = icmp eq i64 %j, %n
  br i1 %done, label %end, label %round

end:                                              ; preds = %round
  ret i64 %next
}}

!1 = !{{}}
"""

ROUNDS = {
    "the larger of what changes": (
        True,
        "%more = sub i64 %last, 1",
        "%next = tail call i64 @llvm.smax.i64(i64 %more, i64 %data), !dbg !1",
    ),
    "a choice by data": (
        True,
        "%more = mul i64 %last, 3",
        "%odd = trunc i64 %data to i1",
        "%next = select i1 %odd, i64 %more, i64 %last, !dbg !1",
    ),
    "a running maximum": (False, "%next = call i64 @llvm.smax.i64(i64 %last, i64 %data)"),
    "the last of some": (
        False,
        "%odd = trunc i64 %data to i1",
        "%next = select i1 %odd, i64 %i, i64 %last",
    ),
    "a choice by the counter": (
        False,
        "%more = add i64 %last, %data",
        "%late = icmp sgt i64 %i, 16",
        "%next = select i1 %late, i64 %more, i64 %last",
    ),
    "vectors": (
        False,
        "%more = add i64 %last, %data",
        "%v = call <4 x i64> @llvm.smax.v4i64(<4 x i64> %a, <4 x i64> %b)",
        "%next = add i64 %more, 1",
    ),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_which_choices_are_marked(name):
    marked, *body = ROUNDS[name]
    text = LOOP.format(body="\n".join(f"  {line}" for line in body))
    found = mark_unpredictable(text)
    assert (found is not None) == marked
    if marked:
        (line,) = (line for line in found.splitlines() if "%next = select" in line)
        assert line.endswith("!unpredictable !2")
        assert found.endswith("!2 = !{}\n")


def test_a_function_of_its_module_alone_can_be_read_again():
    text = LOOP.format(
        body="  %more = sub i64 %last, 1\n  %next = call i64 @llvm.smax.i64(i64 %more, i64 %data)"
    )
    text += (
        "define private dllexport i64 @g() {\n  ret i64 0\n}\ndefine dllexport i64 @h() {\n  ret i64 1\n}\n"
    )
    found = mark_unpredictable(text)
    assert found is not None
    assert "define private i64 @g()" in found
    assert "define dllexport i64 @h()" in found
    load_llvm(found)


@pytest.mark.optimized
def test_values_of_marked_choices():
    f = nnmagic.compile(
        textwrap.dedent(
            """
            def f(a: Tensor[("n",), i64], b: Tensor[("n",), u64]):
                low, high, large, small = 0, 0, np.uint64(0), np.uint64(0)
                for i in range(len(a)):
                    low = min(low + 1, a[i])
                    high = max(high - 1, a[i])
                    large = max(large >> np.uint64(1), b[i])
                    small = min(small + np.uint64(3), b[i])
                return low, high, large, small
            """
        ),
        namespace={"np": np},
        cache=False,
    )
    random = np.random.default_rng(0)
    for n in (0, 1, 2, 100):
        a = random.choice(np.array([-(2**63), -5, 0, 7, 2**63 - 1, *range(-50, 50)]), n)
        b = random.choice(np.array([0, 1, 5, 2**63, 2**64 - 9], np.uint64), n)
        low, high, large, small = 0, 0, 0, 0
        for x, y in zip(a.tolist(), b.tolist(), strict=True):
            low, high = min(low + 1, x), max(high - 1, x)
            large, small = max(large >> 1, y), min(small + 3, y)
        assert tuple(map(int, f(a, b))) == (low, high, large, small)
