"""Print the TIR, LLVM and assembly stages of a compiled program."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from typing import Any

import tvm


def module_text(module: tvm.IRModule) -> str:
    """Return a module as TVM's script."""
    return _INT64.sub(r"\1", module.script(show_meta=False))


def code_text(libraries: Iterable[Any], stage: str) -> str:
    """Return the LLVM code of object code (stage ``llvm``), or the instructions of its functions (``asm``).

    TVM names memory that LLVM must tell apart by addresses, which differ between runs; here it is numbered.
    """
    if stage == "asm":
        return "\n\n".join(f"{name}:\n{code}" for name, code in function_code(libraries).items())
    text = "".join(_without_debug_information(library.inspect_source("ll")) for library in libraries)
    numbers: dict[str, int] = {}
    return _ADDRESS.sub(lambda address: str(numbers.setdefault(address[0], len(numbers))), text)


def _without_debug_information(text: str) -> str:
    """Return LLVM code without what debuggers ask for, and without the metadata that only this names."""
    text = _DEBUG.sub("", text)
    metadata = {name: row for row, name in _METADATA.findall(text)}
    used, pending = set(), re.findall(r"!\d+", _METADATA.sub("", text))
    while pending:
        name = pending.pop()
        if name not in used:
            used.add(name)
            pending += re.findall(r"!\d+", metadata.get(name, ""))
    return _METADATA.sub(lambda row: row[0] if row[2] in used else "", text)


def kernel_texts(module: tvm.IRModule) -> dict[str, str]:
    """Return the text of each TIR function of a lowered module, by name."""
    _, *functions = re.split(r"(?m)^(?=    @T\.prim_func)", module_text(module))
    texts = [textwrap.dedent(text).rstrip() for text in functions]
    return {_name_of(text): text for text in texts}


def _name_of(text: str) -> str:
    """Return the name of a TIR function; since Python 3.12 its text names sizes after it, ``def f[n](``."""
    match = re.search(r"def (\w+)", text)
    assert match is not None
    return match[1]


def function_code(libraries: Iterable[Any]) -> dict[str, str]:
    """Return the instructions of each function of object code, by its symbol.

    Directives, what the debugger wants, and tables of constants are left out.
    """
    bodies: dict[str, list[str]] = {}
    for library in libraries:
        lines: list[str] | None = None
        for line in library.inspect_source("asm").splitlines():
            label = _LABEL.match(line)
            name = label[1] if label else ""
            if name in _SUPPORT or name.startswith(_ENDS):
                lines = None
            elif name and (name.startswith(_PRIVATE) or not name.startswith((".", "L", "$"))):
                lines = bodies.setdefault(name, [])
            elif lines is not None and line.strip() and not _DIRECTIVE.match(line):
                lines.append(line.rstrip())
    texts = {symbol: "\n".join(_without_unused_labels(lines)) for symbol, lines in bodies.items()}
    return {symbol: text for symbol, text in texts.items() if text}


def _without_unused_labels(lines: list[str]) -> list[str]:
    used = set(re.findall(r"(?m)^\s.*?(\.?L\w+)\s*$", "\n".join(lines)))
    return [line for line in lines if not (label := _LABEL.match(line)) or label[1] in used]


#: A number of 64 bits, which is written as the number alone.
_INT64 = re.compile(r"\bT\.int64\((-?\d+)\)")
#: What the names of functions begin with that only one object knows; not those of other labels.
_PRIVATE = ".L_"
#: A label, and a directive of the assembler or a comment.
_LABEL, _DIRECTIVE = re.compile(r"([\w.$]+):"), re.compile(r"\s*(\.\w+\b(?!.*:)|[#;/])")
#: What LLVM code has for debuggers, and where it is from; a row of metadata, and its name.
_DEBUG = re.compile(r"(?m), !dbg !\d+| !dbg !\d+|^(?: *#dbg_|!llvm\.dbg|; ModuleID|source_filename).*\n")
_METADATA = re.compile(r"(?m)^((!\d+) = .*\n?)")
#: What TVM adds to each object: conversions of half floats.
_SUPPORT = ("__truncsfhf2", "__extendhfsf2")
#: What the labels after a function begin with.
_ENDS = (".Lfunc_end", "Lfunc_end", ".LCPI")
#: An address of memory, as C's library prints it on POSIX and on Windows.
_ADDRESS = re.compile(r'(?<=!")(?:0x[0-9a-f]+|[0-9A-F]{16})\b')
