"""Print the TIR, LLVM and assembly stages of a compiled program."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

import tvm
from tvm import tirx


def kernels_text(module: tvm.IRModule) -> str:
    """Return the TIR functions of a lowered module as text."""
    kernels = {
        var: function for var, function in module.functions_items() if isinstance(function, tirx.PrimFunc)
    }
    return str(tvm.IRModule(kernels).script(show_meta=False))


def code_text(libraries: Iterable[tvm.runtime.Module], stage: str) -> str:
    """Return the LLVM code of object code (stage ``llvm``) or its assembly (``asm``).

    TVM names memory that LLVM must tell apart by addresses, which differ between runs; here it is numbered.
    """
    text = "".join(library.inspect_source("ll" if stage == "llvm" else "asm") for library in libraries)
    numbers: dict[str, int] = {}
    return _ADDRESS.sub(lambda address: str(numbers.setdefault(address[0], len(numbers))), text)


def kernel_texts(module: tvm.IRModule) -> dict[str, str]:
    """Return the text of each TIR function of a lowered module, by name."""
    _, *functions = re.split(r"(?m)^(?=    @T\.prim_func)", kernels_text(module))
    texts = [textwrap.dedent(text).rstrip() for text in functions]
    return {_name_of(text): text for text in texts}


def _name_of(text: str) -> str:
    """Return the name of a TIR function; since Python 3.12 its text names sizes after it, ``def f[n](``."""
    match = re.search(r"def (\w+)", text)
    assert match is not None
    return match[1]


def function_code(libraries: Iterable[tvm.runtime.Module]) -> dict[str, str]:
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
            elif name and not name.startswith((".", "L", "$")):
                lines = bodies.setdefault(name, [])
            elif lines is not None and line.strip() and not _DIRECTIVE.match(line):
                lines.append(line.rstrip())
    return {symbol: "\n".join(_without_unused_labels(lines)) for symbol, lines in bodies.items() if lines}


def _without_unused_labels(lines: list[str]) -> list[str]:
    used = set(re.findall(r"(?m)^\s.*?(\.?L\w+)\s*$", "\n".join(lines)))
    return [line for line in lines if not (label := _LABEL.match(line)) or label[1] in used]


#: A label, and a directive of the assembler or a comment.
_LABEL, _DIRECTIVE = re.compile(r"([\w.$]+):"), re.compile(r"\s*(\.\w+\b(?!.*:)|[#;/])")
#: What TVM adds to each object: conversions of half floats.
_SUPPORT = ("__truncsfhf2", "__extendhfsf2")
#: What the labels after a function begin with.
_ENDS = (".Lfunc_end", "Lfunc_end", ".LCPI")
#: An address of memory, as C's library prints it on POSIX and on Windows.
_ADDRESS = re.compile(r'(?<=!")(?:0x[0-9a-f]+|[0-9A-F]{16})\b')
