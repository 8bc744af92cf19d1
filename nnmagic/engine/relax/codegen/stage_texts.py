"""Print the TIR, LLVM and assembly stages of a compiled program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import tvm
from tvm import tirx


def kernels_text(module: tvm.IRModule) -> str:
    """The TIR functions of a lowered module as text."""
    kernels = {
        var: function for var, function in module.functions_items() if isinstance(function, tirx.PrimFunc)
    }
    return str(tvm.IRModule(kernels).script(show_meta=False))


def code_text(libraries: Iterable[Any], stage: str) -> str:
    """LLVM's code of the libraries (stage ``llvm``) or the assembler's (``asm``).

    TVM names the memory that LLVM must tell apart by addresses, which differ between runs; here by numbers.
    """
    text = "".join(library.inspect_source("ll" if stage == "llvm" else "asm") for library in libraries)
    numbers: dict[str, int] = {}
    return _ADDRESS.sub(lambda found: str(numbers.setdefault(found[0], len(numbers))), text)


_ADDRESS = re.compile(r'(?<=!")0x[0-9a-f]+\b')
