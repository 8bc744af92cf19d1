"""Print the TIR, LLVM and assembly stages of a compiled program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import tvm
from tvm import tirx


def kernels_text(module: tvm.IRModule) -> str:
    """Return the TIR functions of a lowered module as text."""
    kernels = {
        var: function for var, function in module.functions_items() if isinstance(function, tirx.PrimFunc)
    }
    return str(tvm.IRModule(kernels).script(show_meta=False))


def code_text(libraries: Iterable[Any], stage: str) -> str:
    """Return the LLVM code of object code (stage ``llvm``) or its assembly (``asm``).

    TVM names memory that LLVM must tell apart by addresses, which differ between runs; here it is numbered.
    """
    text = "".join(library.inspect_source("ll" if stage == "llvm" else "asm") for library in libraries)
    numbers: dict[str, int] = {}
    return _ADDRESS.sub(lambda address: str(numbers.setdefault(address[0], len(numbers))), text)


_ADDRESS = re.compile(r'(?<=!")0x[0-9a-f]+\b')
