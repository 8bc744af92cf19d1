"""Programs of C that call exported functions with known arguments, and what they must print."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

#: The compiler of C that is here, if there is one.
CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")

#: Its options: the header and the program must be clean.
CLEAN = ("-std=c11", "-Wall", "-Wextra", "-Werror")

#: What compiles programs to WebAssembly, and what runs these: a function of JavaScript.
WASM_TOOLS = ("clang", "wasm-ld")
RUN_WASM = Path(__file__).with_name("run_wasm.js").read_text("utf-8")

_TYPES = {"bool": "bool", "float16": "uint16_t", "float32": "float", "float64": "double"}


#: What is written and read has blocks of its own size, not filled: valgrind sees each access beside one.
_SUPPORT = """static void put(const void *data, size_t bytes) { fwrite(data, 1, bytes, stdout); }
static void *block(const void *data, size_t bytes) {
    char *memory = malloc(bytes);
    for (size_t i = 0; data && i < bytes; i++) memory[i] = ((const char *)data)[i];
    return memory;
}"""


@dataclass(frozen=True)
class Argument:
    """An argument as the header's comment says: ``x  float32[n, 3]: read``."""

    name: str
    dtype: str
    shape: tuple[str, ...] | None
    role: str

    @property
    def type(self) -> str:
        return _TYPES.get(self.dtype, f"{self.dtype}_t")


def read_header(text: str) -> dict[str, list[Argument]]:
    """Return the arguments of the functions of a header, from the comment and the prototype of each."""
    functions: dict[str, list[Argument]] = {}
    pattern = r"/\*((?:(?!\*/).)*)\*/\nint (\w+)\(([^)]*)\);\nint \w+_with"
    for comment, name, parameters in re.findall(pattern, text, re.DOTALL):
        lines = [line.strip().split(None, 1) for line in comment.splitlines()]
        said = {line[0]: line[1] for line in lines if len(line) == 2}
        functions[name] = []
        for parameter in parameters.split(", ") if parameters != "void" else ():
            own = parameter.rpartition(" ")[2].lstrip("*")
            found = re.fullmatch(r"(\w+)(?:\[(.*)\])?(?:: (.*))?", said[own])
            assert found is not None, said[own]
            shape = tuple(filter(None, (found[2] or "").split(", "))) if "*" in parameter else None
            functions[name].append(Argument(own, found[1], shape, found[3] or "read"))
    return functions


def flat(value: object) -> list[np.ndarray]:
    """Return the arrays of arguments or results, tuples and records flattened."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple):
        return [each for item in value for each in flat(item)]
    return [] if value is None else [np.asarray(value)]


class Calls:
    """A call of each of some functions, whose header is given."""

    def __init__(self, header: str, calls: Sequence[tuple[Any, Sequence[object]]]) -> None:
        self._functions, self._calls = read_header(header), calls

    def program(self, header: str) -> str:
        """Return the program, which writes the bytes that parameters and results have afterwards."""
        data, body = list[str](), list[str]()
        for function, values in self._calls:
            self._call(function.name, flat(tuple(values)), data, body)
        includes = ["#include <stdio.h>", "#include <stdlib.h>", f'#include "{header}"']
        return "\n".join([*includes, _SUPPORT, *data, "int main(void) {", *body, "    return 0;", "}", ""])

    def _call(self, name: str, values: Sequence[np.ndarray], data: list[str], body: list[str]) -> None:
        """Add the data and the statements of a call."""
        arrays, sizes = iter(values), dict[str, int]()
        given, declared, after = list[str](), list[str](), list[str]()
        for argument in self._functions[name]:
            own, symbol, type_ = argument.name, f"{name}_{argument.name}", argument.type
            if argument.role == "a size":
                given.append(str(sizes[own]))
            elif argument.role.startswith("allocated"):
                declared.append(f"{type_} *{own} = NULL;")
                given.append(f"&{own}")
                bytes_ = " * ".join([*(f"(size_t){size}" for size in argument.shape or ()), f"sizeof *{own}"])
                after.append(f"put({own}, {bytes_}); free({own});")
            elif own.endswith("_shape"):
                declared.append(f"int64_t {own}[{max(int((argument.shape or ('1',))[0]), 1)}];")
                given.append(own)
            elif own.startswith("result"):
                count = int(np.prod([eval(size, dict(sizes)) for size in argument.shape or ()], dtype=int))
                declared.append(f"{type_} *{symbol} = block(NULL, {count} * sizeof *{symbol});")
                given.append(symbol)
                after.append(f"put({symbol}, {count} * sizeof *{symbol}); free({symbol});")
            else:
                array = next(arrays)
                sizes.update(zip(argument.shape or (), array.shape, strict=True) if argument.shape else ())
                sizes.update({own: array.item()} if argument.shape is None else {})
                data.append(f"static const {type_} of_{symbol}[] = {{{_numbers(array)}}};")
                declared.append(f"{type_} *{symbol} = block(of_{symbol}, {array.size} * sizeof *{symbol});")
                given.append(f"*{symbol}" if argument.shape is None else symbol)
                bytes_ = f"{array.size} * sizeof *{symbol}"
                after += [] if argument.role == "read" else [f"put({symbol}, {bytes_});"]
                after.append(f"free({symbol});")
        failed = f'{{ fprintf(stderr, "{name}: %s\\n", {name}_message(code)); return 1; }}'
        call = [f"int code = {name}({', '.join(given)});", f"if (code) {failed}"]
        body += ["    {", *(f"        {line}" for line in (*declared, *call, *after)), "    }"]

    def expected(self) -> list[tuple[str, np.ndarray]]:
        """Return the arrays that the program prints, as Python computes them, with the functions' names."""
        whole = []
        for function, values in self._calls:
            given = copy.deepcopy(tuple(values))
            result = flat(function(*given))
            own = [each for each in self._functions[function.name] if not each.name.startswith("result")]
            roles = [each.role for each in own if each.role != "a size"]
            changed = [array for role, array in zip(roles, flat(given), strict=True) if role != "read"]
            whole += [(function.name, array) for array in (*changed, *result)]
        return whole

    def printed(self, output: bytes) -> list[tuple[str, np.ndarray]]:
        """Return the arrays in what a program printed."""
        arrays, at = [], 0
        for name, array in self.expected():
            part = np.frombuffer(output[at : at + array.nbytes], array.dtype)
            arrays.append((name, part.reshape(array.shape)))
            at += array.nbytes
        assert at == len(output)
        return arrays


def wasm_program(folder: Path) -> Path:
    """Return the module of a program, ``main.c``, and of its library, ``liball.a``, without a C library."""
    program = folder / "main.wasm"
    target = ("--target=wasm32", "-O1", "-ffreestanding", "-nostdlib", "-Dmain=run", *CLEAN)
    headers = ("-isystem", Path(__file__).with_name("wasm_headers"))
    linked = (f"-Wl,{option}" for option in ("--no-entry", "--allow-undefined", "--export=run"))
    files = (folder / "main.c", folder / "liball.a", "-Wl,--export=__heap_base", "-o", program)
    run(["clang", *target, *headers, *linked, *files])
    return program


def _numbers(array: np.ndarray) -> str:
    if array.dtype == "float16":
        array = array.view("uint16")
    values = array.reshape(-1).tolist()
    return ", ".join(value.hex() if isinstance(value, float) else str(int(value)) for value in values) or "0"


def run(command: Sequence[str | Path | None], **options: Mapping[str, str]) -> bytes:
    """Return what a command prints. Raises AssertionError, with its errors, if it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, check=False, **options)  # type: ignore[call-overload]  # its keywords
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    output: bytes = done.stdout
    return output
