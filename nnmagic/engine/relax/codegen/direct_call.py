"""Compile what CPython calls in place of a compiled function; see ``runtime/direct_call.py``.

It is one function of machine code for all programs: it looks at the arguments, makes the result, and calls
the entry of the program that a table describes. Whatever it does not take it hands over to Python. Another
function stands between kernels and TVM's thread pool, which is for calls through Python only. A third is the
loop of NumPy's ufuncs, see ``runtime/ufunc.py``.
"""

from __future__ import annotations

import re
import struct
import textwrap
from functools import cache
from itertools import starmap

import numpy as np

from nnmagic.engine.relax.codegen.direct_call_code import CALL_CODE
from nnmagic.engine.relax.codegen.object_code import compile_llvm
from nnmagic.engine.relax.codegen.ufunc_loop_code import LOOP_CODE
from nnmagic.engine.relax.runtime.direct_call import (
    ADDRESS,
    DIMENSIONS,
    LARGEST,
    LAUNCH,
    LEFT_WORDS,
    MAX_ARITY,
    MAX_DEPTH,
    MAX_DIMS,
    MAX_RESULTS,
    NUMBERS,
    RESULT_WORDS,
    NumberWords,
    StackCode,
    Word,
)
from nnmagic.engine.relax.runtime.numpy_abi import DATA, DESCR, DIMS, FLAGS, RANK, READABLE, TYPE, WORDS
from nnmagic.engine.relax.runtime.ufunc import LOOP, MAX_RANK, MOST_OPERANDS, LoopWord

#: A value of TVM's calls: the kind of an integer, then the integer.
_INTEGER = 1

#: The word of an object of Python's float or of a scalar of NumPy where the number is.
_CONTENT = 2

#: NumPy's flag of an array that can be changed.
_WRITEABLE = 0x400

#: The most rows of a loop that machine code runs without Python, the most of one each row of which takes the
#: row before, and the most bytes of an element.
_MOST_ROWS, _MOST_IN_SEQUENCE, _ITEM = 128, 32, 16

#: The largest number of float32, in the hexadecimal digits in which LLVM writes a double.
_LARGEST_SINGLE = "0x" + struct.pack(">d", float(np.finfo("float32").max)).hex().upper()

#: How many calls go through Python after one that failed, as the next ones may be like it.
_SKIPS = 64

#: The words below the stack of sizes that an instruction may read and not use.
_BELOW = 3

#: The instructions that compute ``%value`` of an operator from ``%left`` and ``%right``, the topmost
#: sizes, and ``%third`` below them.
_OPERATORS = {
    StackCode.NUMBER: "%value = add i64 %operand, 0",
    StackCode.DIM: "%dim_at = getelementptr i64, ptr %sizes, i64 %operand\n%value = load i64, ptr %dim_at",
    StackCode.ADD: "%value = add i64 %left, %right",
    StackCode.SUBTRACT: "%value = sub i64 %left, %right",
    StackCode.MULTIPLY: "%value = mul i64 %left, %right",
    StackCode.DIVIDE: """%quotient = sdiv i64 %right, %operand
%rest = srem i64 %right, %operand
%borrow = ashr i64 %rest, 63
%value = add i64 %quotient, %borrow""",
    StackCode.REMAINDER: """%rest = srem i64 %right, %operand
%sign = ashr i64 %rest, 63
%borrow = and i64 %sign, %operand
%value = add i64 %rest, %borrow""",
    StackCode.MINIMUM: "%value = call i64 @llvm.smin.i64(i64 %left, i64 %right)",
    StackCode.MAXIMUM: "%value = call i64 @llvm.smax.i64(i64 %left, i64 %right)",
    **{
        operator: f"%holds = icmp {predicate} i64 %left, %right\n%value = zext i1 %holds to i64"
        for operator, predicate in (
            (StackCode.LESS, "slt"),
            (StackCode.AT_MOST, "sle"),
            (StackCode.GREATER, "sgt"),
            (StackCode.AT_LEAST, "sge"),
            (StackCode.EQUAL, "eq"),
            (StackCode.DIFFERENT, "ne"),
        )
    },
    StackCode.AND: "%value = and i64 %left, %right",
    StackCode.OR: "%value = or i64 %left, %right",
    StackCode.IF: "%holds = icmp ne i64 %third, 0\n%value = select i1 %holds, i64 %left, i64 %right",
}

#: What the entry takes after the results: a value of the code, and what has its number. The next one is
#: stored over what is not there.
_LAST_VALUES = {
    "addresses": "addresses_number",
    "workspace": "workspace_number",
    "constants": "constants_number",
}


@cache
def compile_direct_call() -> bytes:
    """Return the object file, for this machine."""
    code = (CALL_CODE + LOOP_CODE).format(
        **_stack_code_texts(),
        largest=LARGEST,
        twice_largest=2 * LARGEST,
        stack=_BELOW + MAX_DEPTH,
        below=_BELOW,
        address=ADDRESS,
        launch=LAUNCH,
        values=2 * (MAX_ARITY + MAX_RESULTS + 3),
        max_results=MAX_RESULTS,
        result_words=RESULT_WORDS,
        left_words=LEFT_WORDS,
        skips=_SKIPS,
        stores="\n".join(starmap(_store_value, _LAST_VALUES.items())),
        store_result=_store_value("result", "number_of_value"),
        max_dims=MAX_DIMS,
        data=DATA,
        type=TYPE,
        rank=RANK,
        extents=DIMS,
        first=DIMENSIONS,
        integer=_INTEGER,
        numbers=NUMBERS,
        number_words=len(NumberWords),
        content=_CONTENT,
        scalar=NumberWords.SCALAR.value,
        float_kind=NumberWords.FLOAT_KIND.value,
        least=NumberWords.LEAST.value,
        largest_int=NumberWords.LARGEST.value,
        largest_single=_LARGEST_SINGLE,
        loads="\n".join(map(_load, Word)),
        loop=LOOP,
        loop_rank=1 + MAX_RANK,
        scratch=MOST_OPERANDS * _MOST_ROWS * _ITEM,
        scratch_row=_MOST_ROWS * _ITEM,
        item=_ITEM,
        most_rows=_MOST_ROWS,
        most_in_sequence=_MOST_IN_SEQUENCE,
        most_operands=MOST_OPERANDS,
        described=MOST_OPERANDS * WORDS,
        description=WORDS,
        loop_values=2 * (2 * MOST_OPERANDS + 2),
        descr=DESCR,
        flags=FLAGS,
        readable=READABLE,
        loop_stores="\n".join(
            _store_value(name, number)
            for name, number in (("workspace", "workspace_number"), ("constants", "constants_number"))
        ),
        gather=_copy_rows("gather", "0 %inputs", "part compute", "memory scratched"),
        scatter=_copy_rows("scatter", "%inputs %operands", "compute scattered", "scratched memory"),
        first_operand=len(LoopWord),
        writeable=_WRITEABLE,
        loop_loads="\n".join(map(_load, LoopWord)),
    )
    return compile_llvm(expand(code)).code


def _stack_code_texts() -> dict[str, str]:
    """Return the parts of the code that have a line for each operator of the stack machine."""
    return dict(  # noqa: C408 - the names of the code's parts
        cases="\n".join(
            f"    i64 {operator.value}, label %{operator.name.lower()}" for operator in StackCode
        ),
        operators="\n".join(map(_compute, StackCode)),
        pushed=", ".join(
            f"[ %{operator.name.lower()}.value, %{operator.name.lower()} ]" for operator in StackCode
        ),
        popped=", ".join(f"[ {operator.operands}, %{operator.name.lower()} ]" for operator in StackCode),
    )


#: An instruction that is an operand, or a word of memory that is an address.
_NESTED = re.compile(r"\(((?:add|sub|mul|urem|and|or|icmp|trunc) [^()\[\]]*)\)|(%[\w.]+)\[([^()\[\]]+)\]")


def expand(code: str) -> str:
    """Return LLVM code of lines whose operands may be ``(add i64 %a, 1)`` and whose addresses ``%a[%i]``."""
    lines = list[str]()
    for line in code.splitlines():
        while nested := _NESTED.search(line):
            instruction, base, index = nested.groups()
            name = f"%operand{len(lines)}"
            lines.append(f"  {name} = {instruction or f'getelementptr i64, ptr {base}, i64 {index}'}")
            line = line[: nested.start()] + name + line[nested.end() :]  # noqa: PLW2901 - rest of the line
        lines.append(line)
    return "\n".join(lines)


def _load(word: Word | LoopWord) -> str:
    """Return the instructions that load a word of the table under its name."""
    name = word.name.lower()
    kind = "i64" if word.is_number else "ptr"
    return (
        f"  %{name}_at = getelementptr i64, ptr %words, i64 {word.value}\n"
        f"  %{name} = load {kind}, ptr %{name}_at"
    )


def _store_value(name: str, number: str) -> str:
    """Return the instructions that make a value an argument of the entry, which has the number."""
    return (
        f"  %{name}.kind = getelementptr i64, ptr %values, i64 (mul i64 %{number}, 2)\n"
        f"  store i64 {_INTEGER}, ptr %{name}.kind\n"
        f"  store ptr %{name}, ptr %{name}.kind[1]"
    )


def _copy_rows(block: str, numbers: str, blocks: str, copied: str) -> str:
    """Return the blocks that copy the rows of operands to the scratch, or back from there.

    ``numbers``: the first operand and the end; ``blocks``: those before and after; ``copied``: from and to.
    """
    (first, end), (before, after), (source, target) = numbers.split(), blocks.split(), copied.split()
    text = f"""_next:
  %.number = phi i64 [ {first}, %{before} ], [ %.next, %._end ]
  br i1 (icmp ult i64 %.number, {end}), label %._one, label %{after}
_one:
  %.row = phi i64 [ 0, %._next ], [ %.next_row, %._copy ]
  br i1 (icmp ult i64 %.row, %chunk), label %._copy, label %._end
_copy:
  %.address = load ptr, ptr %all_addresses[%.number]
  %.step = load i64, ptr %strides[%.number]
  %.memory = getelementptr i8, ptr %.address, i64 (mul i64 (add i64 %start, %.row), %.step)
  %.bytes = load i64, ptr %words[(add i64 (mul i64 %.number, 3), {len(LoopWord) + 1})]
  %.offset = add i64 (mul i64 %.number, {_MOST_ROWS * _ITEM}), (mul i64 %.row, %.bytes)
  %.scratched = getelementptr i8, ptr %scratch, i64 %.offset
  call void @llvm.memcpy.p0.p0.i64(ptr %.{target}, ptr %.{source}, i64 %.bytes, i1 false)
  %.next_row = add i64 %.row, 1
  br label %._one
_end:
  %.next = add i64 %.number, 1
  br label %._next"""
    text = text.replace("%._", f"%{block}_").replace("%.", f"%{block}.")
    return re.sub(r"^_", f"{block}_", text, flags=re.MULTILINE)


def _compute(operator: StackCode) -> str:
    """Return the block of instructions that compute the value of an operator of sizes."""
    name = operator.name.lower()
    own = re.sub(r"%(?!(?:third|left|right|operand|sizes)\b)(\w+)", rf"%{name}.\1", _OPERATORS[operator])
    return f"{name}:\n{textwrap.indent(own, '  ')}\n  br label %push"
