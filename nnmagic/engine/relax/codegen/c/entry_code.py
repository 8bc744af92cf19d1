"""Write the LLVM of the C functions around AOT programs: of `f`, `f_with`, `f_message`.

What these run, `f.steps`, is a text of its own: LLVM gets it with the program, and joins them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nnmagic.engine.relax.codegen.aot.heap import RELEASE
from nnmagic.engine.relax.codegen.aot.memory import round_up
from nnmagic.engine.relax.codegen.aot.program import ALIGNMENT, Register
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.codegen.c.runtime_code import DECLARED
from nnmagic.engine.relax.runtime.native_entry import FAILURES, REFUSED, TOO_DEEP
from nnmagic.relay.types import NUMPY_DTYPES

#: What a C function returns else than 0: sizes do not fit; memory is short; recursion is too deep. What the
#: function itself refuses has its own numbers, from FAILURES on.
SIZES, MEMORY, DEPTH = 1, 2, 3

_MESSAGES = {
    0: "no error",
    SIZES: "the sizes do not fit together, or one is negative",
    MEMORY: "there is not enough memory",
    DEPTH: "the function calls itself too deeply",
}

#: The most bytes of a workspace on the stack.
_STACK_BYTES = 4096

#: The word of the state that limits recursion, and the depth that the stack of any thread holds.
_LEVELS, _DEPTH = 4, 1000

#: The names of the program's functions that run it, and say how much memory that takes.
PLAIN_ENTRY, NEEDED = "plain_entry", "workspace_bytes"

#: The function that both are put into, with the steps of a call; what symbols of the program's functions
#: begin with, after the name of the C function and a dot.
RUN, STEPS, KERNEL = "run", "steps", "kernel_"

#: The bytes as LLVM writes them in texts.
_WRITTEN = np.array([f"\\{byte:02X}".encode() for byte in range(256)])

_TYPES = {"bool": "i8", "float16": "i16", "bfloat16": "i16", "float32": "float", "float64": "double"}


@dataclass(frozen=True, slots=True)
class CArgument:
    """An argument of a C function.

    role: ``in``, ``inout`` or ``out``; ``size``; ``made`` for a pointer to a result that the function
    allocates, and ``made_shape`` for its sizes; ``copied`` for a parameter that takes a result in the end.
    shape: its sizes as text, None for a value. number: of the dimension. parameter, result: their numbers
    in the program.
    """

    name: str
    dtype: str
    shape: tuple[str, ...] | None
    role: str
    number: int | None = None
    parameter: int | None = None
    result: int | None = None

    @property
    def is_pointer(self) -> bool:
        """Return whether C passes an address."""
        return self.shape is not None

    @property
    def llvm(self) -> str:
        """Return it as a parameter of LLVM."""
        return f"{'ptr' if self.is_pointer else llvm_type(self.dtype)} %{self.name}"


def llvm_type(dtype: str) -> str:
    """Return the type of a value of a dtype in C functions."""
    return _TYPES.get(dtype) or f"i{dtype.removeprefix('u').removeprefix('int')}"


class EntryCode:
    """Writes the functions of one program.

    name: the symbol. arguments: in C's order. messages: what the failures of the program say, by number.
    wide: whether addresses have 64 bits.
    """

    def __init__(
        self,
        name: str,
        program: AotProgram,
        arguments: Sequence[CArgument],
        messages: Sequence[str],
        *,
        wide: bool,
    ) -> None:
        self.name, self.program, self.arguments, self.messages = name, program, arguments, messages
        self.wide = wide
        self._lines: list[str] = []
        self._called: set[str] = set()
        self._count = 0
        self._status = ""
        entry = program.entry
        self._state = program.state_words()
        #: The parameters that take a copy of a result in the end.
        self.copied = [argument for argument in arguments if argument.role == "copied"]
        self._stack = None
        if isinstance(entry.workspace, int) and entry.workspace <= _STACK_BYTES and not self.copied:
            self._stack = entry.workspace + round_up(self._state * 8)

    def steps(self) -> str:
        """Return a module with what `f` and `f_with` run, which is put into the program's function `RUN`."""
        parameters = ", ".join(["ptr %host", *(argument.llvm for argument in self.arguments)])
        self._run()
        data = [f"{symbol} = external constant i64" for symbol in self._constant_symbols()]
        data.append(f"@{self.name}.table = external constant i64")
        run = f"define void @{self.name}.{STEPS}({parameters}, ptr %.code) {{"
        # Memory on the stack comes first: behind a branch its place would be computed, and all of it be kept.
        lines = sorted(self._lines, key=lambda line: " = alloca " not in line)
        body = re.sub(r"(?m)^  ret i32 (.*)$", r"  store i32 \1, ptr %.code\n  ret void", "\n".join(lines))
        return "\n".join([DECLARED, *data, *sorted(self._called), run, body, "}", ""])

    def text(self, *, parallel: bool) -> str:
        """Return the rest of the code; ``parallel``: whether kernels share loops between threads."""
        parameters = [argument.llvm for argument in self.arguments]
        functions = []
        for name, host in ((f"{self.name}_with", "%host"), (self.name, "null")):
            lines = call_run(self.name, [f"ptr {host}", *parameters])
            if parallel:
                lines.insert(0, f"  store ptr {host}, ptr @nnm_current")
                lines.insert(0, "  %.before = load ptr, ptr @nnm_current")
                lines.append("  store ptr %.before, ptr @nnm_current")
            listed = ", ".join(["ptr %host", *parameters][host == "null" :])
            functions += [f"define signext i32 @{name}({listed}) {{", *lines, "  ret i32 %.code", "}"]
        return "\n".join([*self._constants(), *functions, *self._message(), ""])

    def _constants(self) -> Iterator[str]:
        for number, constant in enumerate(self.program.constants):
            data = np.ascontiguousarray(constant).tobytes()
            text = f"[{len(data)} x i8] {_quote(data)}, align {ALIGNMENT}"
            yield f"@{self.name}.constant{number} = internal constant {text}"
        symbols = self._constant_symbols()
        words = ", ".join(f"i64 ptrtoint (ptr {symbol} to i64)" for symbol in symbols)
        if symbols and self.wide:
            yield f"@{self.name}.table = internal constant [{len(symbols)} x i64] [{words}]"

    def _message(self) -> Iterator[str]:
        texts = {**_MESSAGES, **{FAILURES + number: text for number, text in enumerate(self.messages)}}
        symbols = {code: f"@{self.name}.message{code}" for code in texts}
        for code, text in texts.items():
            data = text.encode() + b"\0"
            yield f"{symbols[code]} = internal constant [{len(data)} x i8] {_quote(data)}"
        yield f"define ptr @{self.name}_message(i32 signext %code) {{"
        yield "  switch i32 %code, label %unknown ["
        yield from (f"    i32 {code}, label %code{code}" for code in texts)
        yield "  ]"
        for code, symbol in symbols.items():
            yield f"code{code}:\n  ret ptr {symbol}"
        yield "unknown:\n  ret ptr null\n}"

    # Instructions

    def _new(self, instruction: str) -> str:
        self._count += 1
        self._lines.append(f"  %.{self._count} = {instruction}")
        return f"%.{self._count}"

    def _add(self, line: str) -> None:
        self._lines.append(f"  {line}")

    def _branch(self, condition: str, block: str) -> None:
        """Begin a block that runs where a condition holds; ``_join`` ends it."""
        self._add(f"br i1 {condition}, label %{block}, label %after_{block}")
        self._lines.append(f"{block}:")

    def _join(self, block: str, leave: str | None = None) -> None:
        self._add(leave or f"br label %after_{block}")
        self._lines.append(f"after_{block}:")

    def _refuse_if(self, condition: str, block: str, code: int) -> None:
        """Return a code where a condition holds."""
        self._branch(condition, block)
        self._join(block, f"ret i32 {code}")

    def _address(self, pointer: str) -> str:
        return self._new(f"ptrtoint ptr {pointer} to i64")

    def _word(self, pointer: str, number: int) -> str:
        return self._new(f"getelementptr i64, ptr {pointer}, i64 {number}")

    def _load_word(self, pointer: str, number: int) -> str:
        return self._new(f"load i64, ptr {self._word(pointer, number)}")

    def _align(self, address: str) -> str:
        more = self._new(f"add i64 {address}, {ALIGNMENT - 1}")
        return self._new(f"and i64 {more}, {-ALIGNMENT}")

    # The steps of a call

    def _run(self) -> None:
        """Write the body of the function that the others call."""
        program = self.program
        table = self._table()
        left = self._new(f"alloca [{max(self._left_words(), 1)} x i64]")
        needed = self._new(f"alloca [{1 + len(program.results)} x i64]")
        self._status = self._new("alloca i64")
        sizes = self._sizes()
        memory = self._memory(sizes, needed)
        begin = self._address(memory)
        if self._stack is None:
            begin = self._align(begin)
        state = self._new(f"inttoptr i64 {begin} to ptr")
        if self._state:
            self._add(f"call void @llvm.memset.p0.i64(ptr {state}, i8 0, i64 {8 * self._state}, i1 false)")
            self._add(f"store i64 {_DEPTH}, ptr {self._word(state, _LEVELS)}")
        copies = self._copies(begin, needed)
        arguments = [*(f"i64 {size}" for size in sizes), *self._parameters(), *self._results(copies, left)]
        arguments += [f"i64 {begin}", f"i64 {self._address(table)}"]
        status = self._call(PLAIN_ENTRY, arguments)
        code = self._code(status)
        if copies:
            self._copy_back(code, copies, needed)
        if program.entry.left:
            code = self._make_left(code, begin, left)
        if self._stack is None:
            self._add(f"call void @nnm_release(ptr %host, ptr {memory})")
        self._add(f"ret i32 {code}")

    def _table(self) -> str:
        """Return the table of the constants' addresses; the stack holds it where these have 32 bits."""
        symbols = self._constant_symbols()
        if self.wide:
            return f"@{self.name}.table" if symbols else "null"
        table = self._new(f"alloca [{max(len(symbols), 1)} x i64]")
        for number, symbol in enumerate(symbols):
            self._add(f"store i64 {self._address(symbol)}, ptr {self._word(table, number)}")
        return table

    def _constant_symbols(self) -> list[str]:
        return [f"@{self.name}.constant{number}" for number in range(len(self.program.constants))]

    def _call(self, function: str, arguments: Sequence[str]) -> str:
        """Call a function of the program, and return its status."""
        self._call_kernel(function, [*arguments, f"i64 {self._address(self._status)}"])
        return self._new(f"trunc i64 {self._load_word(self._status, 0)} to i32")

    def _call_kernel(self, function: str, arguments: Sequence[str]) -> None:
        symbol = f"@{self.name}.{KERNEL}{function}"
        self._new(f"call i32 {symbol}({', '.join(arguments)})")
        self._called.add(f"declare i32 {symbol}({', '.join(each.split()[0] for each in arguments)})")

    def _sizes(self) -> list[str]:
        """Return the dimensions, after a check that none is negative."""
        sizes = []
        named = {argument.number: argument.name for argument in self.arguments if argument.role == "size"}
        for number, dim in enumerate(self.program.entry.dims):
            size = f"%{named[number]}" if number in named else self._value_of(self.program.source_of(dim)[0])
            is_negative = self._new(f"icmp slt i64 {size}, 0")
            self._refuse_if(is_negative, f"negative{number}", SIZES)
            sizes.append(size)
        return sizes

    def _value_of(self, parameter: int) -> str:
        """Return an integer that is a parameter as i64."""
        (given,) = (argument for argument in self.arguments if argument.parameter == parameter)
        value = self._load(given) if given.is_pointer else f"%{given.name}"
        if (type_ := llvm_type(given.dtype)) == "i64":
            return value
        return self._new(f"{'zext' if given.dtype[0] in 'ub' else 'sext'} {type_} {value} to i64")

    def _load(self, argument: CArgument) -> str:
        return self._new(f"load {llvm_type(argument.dtype)}, ptr %{argument.name}")

    def _memory(self, sizes: Sequence[str], needed: str) -> str:
        """Return a pointer to the workspace and to the copies of results."""
        if self._stack is not None:
            return self._new(f"alloca [{self._stack} x i8], align {ALIGNMENT}")
        status = self._call(NEEDED, [f"i64 {size}" for size in (*sizes, self._address(needed))])
        self._refuse_if(self._new(f"icmp ne i32 {status}, 0"), "too_much", MEMORY)
        total = self._load_word(needed, 0)
        for argument in self.copied:
            more = self._new(f"add i64 {self._bytes_of(argument, needed)}, {ALIGNMENT}")
            total = self._new(f"add i64 {total}, {more}")
        memory = self._new(f"call ptr @nnm_allocate(ptr %host, i64 {total})")
        self._refuse_if(self._new(f"icmp eq ptr {memory}, null"), "short", MEMORY)
        return memory

    def _copies(self, begin: str, needed: str) -> list[str]:
        """Return the addresses of the results that are copied to parameters: they follow the workspace."""
        copies: list[str] = []
        end = ""
        for argument in self.copied:
            if not copies:
                end = self._new(f"sub i64 {self._load_word(needed, 0)}, {ALIGNMENT}")
                end = self._new(f"add i64 {begin}, {end}")
            copies.append(self._align(end))
            end = self._new(f"add i64 {copies[-1]}, {self._bytes_of(argument, needed)}")
        return copies

    def _bytes_of(self, argument: CArgument, needed: str) -> str:
        """Return the bytes of the result that a parameter takes."""
        assert argument.result is not None
        return self._load_word(needed, 1 + argument.result)

    def _parameters(self) -> Iterator[str]:
        by_parameter = {each.parameter: each for each in self.arguments if each.parameter is not None}
        for number in range(len(self.program.parameters)):
            param, argument = self.program.entry.parameters[number], by_parameter[number]
            type_ = llvm_type(argument.dtype)
            if not isinstance(param, Register):
                pointer = f"%{argument.name}"
                if not argument.is_pointer:
                    pointer = self._new(f"alloca {type_}")
                    self._add(f"store {type_} %{argument.name}, ptr {pointer}")
                yield f"i64 {self._address(pointer)}"
                continue
            value = self._load(argument) if argument.is_pointer else f"%{argument.name}"
            if argument.dtype == "float16":
                type_, value = "half", self._new(f"bitcast i16 {value} to half")
            yield f"{type_} {value}"

    def _results(self, copies: Sequence[str], left: str) -> Iterator[str]:
        """Yield the addresses of the results."""
        entry = self.program.entry
        for number in range(len(entry.all_results or entry.results)):
            if number in entry.left:
                continue
            (argument,) = (each for each in self.arguments if each.result == number)
            if argument.role == "copied":
                yield f"i64 {copies[self.copied.index(argument)]}"
            else:
                yield f"i64 {self._address(f'%{argument.name}')}"
        if entry.left:
            yield f"i64 {self._address(left)}"

    def _code(self, status: str) -> str:
        """Return C's code for how the program ended."""
        code = self._new(
            f"select i1 {self._new(f'icmp uge i32 {status}, {TOO_DEEP}')}, i32 {DEPTH}, i32 {MEMORY}"
        )
        for known in (0, REFUSED):
            code = self._new(
                f"select i1 {self._new(f'icmp eq i32 {status}, {known}')}, i32 {known}, i32 {code}"
            )
        return self._new(
            f"select i1 {self._new(f'icmp sge i32 {status}, {FAILURES}')}, i32 {status}, i32 {code}"
        )

    def _copy_back(self, code: str, copies: Sequence[str], needed: str) -> None:
        """Copy results to parameters if the call succeeded."""
        self._branch(self._new(f"icmp eq i32 {code}, 0"), "copy")
        for argument, address in zip(self.copied, copies, strict=True):
            source = self._new(f"inttoptr i64 {address} to ptr")
            self._copy(f"%{argument.name}", source, self._bytes_of(argument, needed))
        self._join("copy")

    def _copy(self, target: str, source: str, nbytes: str) -> None:
        self._add(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {nbytes}, i1 false)")

    # Results that the function allocates

    def _left_words(self) -> int:
        return sum(
            1 + len(self.program.entry.all_results[number].shape) for number in self.program.entry.left
        )

    def _make_left(self, code: str, begin: str, left: str) -> str:
        """Allocate the results whose sizes only the call knows, and free the program's own memory.

        A pointer is NULL where the call failed.
        """
        made = [each for each in self.arguments if each.role == "made"]
        shapes = [each for each in self.arguments if each.role == "made_shape"]
        final = self._new("alloca i32")
        self._add(f"store i32 {code}, ptr {final}")
        for argument in made:
            self._add(f"store ptr null, ptr %{argument.name}")
        self._branch(self._new(f"icmp eq i32 {code}, 0"), "make")
        at = 0
        for number, (argument, shape) in enumerate(zip(made, shapes, strict=True)):
            source = self._new(f"inttoptr i64 {self._load_word(left, at)} to ptr")
            nbytes = str(NUMPY_DTYPES[argument.dtype].itemsize)
            for axis in range(len(argument.shape or ())):
                size = self._load_word(left, at + 1 + axis)
                self._add(f"store i64 {size}, ptr {self._word(f'%{shape.name}', axis)}")
                nbytes = self._new(f"mul i64 {nbytes}, {size}")
            at += 1 + len(argument.shape or ())
            some = self._new(f"call i64 @llvm.umax.i64(i64 {nbytes}, i64 1)")
            memory = self._new(f"call ptr @nnm_allocate(ptr %host, i64 {some})")
            self._branch(self._new(f"icmp eq ptr {memory}, null"), f"unmake{number}")
            self._add(f"store i32 {MEMORY}, ptr {final}")
            for earlier in made[:number]:
                held = self._new(f"load ptr, ptr %{earlier.name}")
                self._add(f"call void @nnm_release(ptr %host, ptr {held})")
                self._add(f"store ptr null, ptr %{earlier.name}")
            self._join(f"unmake{number}", "br label %made")
            self._add(f"store ptr {memory}, ptr %{argument.name}")
            self._copy(memory, source, nbytes)
        self._add("br label %made")
        self._lines.append("made:")
        self._call_kernel(RELEASE.name_hint, [f"i64 {begin}"])
        self._join("make")
        return self._new(f"load i32, ptr {final}")


def call_run(name: str, values: Sequence[str]) -> list[str]:
    """Return the instructions that run the function of that name, for its code ``%.code``."""
    return [
        "  %.code_at = alloca i32",
        f"  call i32 @{name}.{KERNEL}{RUN}({', '.join(values)}, ptr %.code_at)",
        "  %.code = load i32, ptr %.code_at",
    ]


def _quote(data: bytes) -> str:
    """Return bytes as LLVM writes them."""
    return f'c"{_WRITTEN[np.frombuffer(data, np.uint8)].tobytes().decode()}"'
