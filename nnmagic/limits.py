"""State how much one compilation may do: what takes more is an error that names the limit.

The limits count what a program is made of, so that they are the same on every machine. docs/language.md lists
those that a user may meet.
"""

from __future__ import annotations

from typing import Final

#: The characters of a cell: Python's parser, which no interrupt stops, takes up to a second for so many.
MAX_CHARACTERS: Final = 500_000

#: The functions and comprehensions inside functions of a cell: Python's compiler, which no interrupt stops,
#: takes a time that is quadratic in their number.
MAX_INNER_FUNCTIONS: Final = 1_000

#: Statements, calls and wide values that are elaborated for one cell, those of unrolled loops and of inlined
#: bodies each time: a few seconds.
MAX_WORK: Final = 50_000

#: A statement that is differentiated takes as much time as so many others.
WORK_OF_A_DERIVATIVE: Final = 4

#: A wide value takes as much work as a statement for each so many items.
ITEMS_OF_A_STATEMENT: Final = 64

#: The items of a tuple, of a captured list and of a type, with those of the parts: enough for any shape, and
#: for the parameters of any model. Otherwise one that doubles again and again would be endless.
MAX_TUPLE_SIZE: Final = 10_000

#: The rows of a tensor, or items of a range, that are computed one by one: each becomes code.
MAX_ITEMS: Final = 1_000

#: How deep captured lists hold one another.
MAX_CAPTURED_DEPTH: Final = 20

#: The errors that are reported: the others are likely to have the same cause.
MAX_ERRORS: Final = 100

#: The cases of one ``match``, one for each alternative of ``|``.
MAX_CASES: Final = 200

#: The bytes of an array that an import makes of numbers in a model, such as the range of a `Range`.
MAX_MADE_BYTES: Final = 1 << 30

#: Bodies of functions without types that are inlined into one another.
MAX_INLINED: Final = 30

#: The tensors that a compiled function takes and returns, with those of tuples: machine code checks each of
#: them, and LLVM's time is quadratic in the length of that check. With a thousand it is ten seconds.
MAX_ARRAYS: Final = 1_000

#: Branches inside branches: TVM's passes recurse over them on the C stack.
MAX_NESTED_BRANCHES: Final = 100

#: The named sizes of one function: TVM's analysis of sizes is quadratic in their number.
MAX_NAMED_SIZES: Final = 256

#: The axes of a tensor that a compiled function takes or returns: NumPy's arrays have no more.
MAX_RANK: Final = 64
