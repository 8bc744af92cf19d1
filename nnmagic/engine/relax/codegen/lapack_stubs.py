"""Compile the stubs by which machine code calls LAPACK; ``runtime/lapack.py`` says what sets them."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.engine.relax.codegen.object_code import ObjectCode, compile_llvm, settable_address
from nnmagic.engine.relax.runtime.lapack import PREFIX, SETTER, names_after

#: What a routine takes: a character, an integer or a float64, of which it wants the address, or a pointer.
#: After these it takes the address of its status, which the stub returns. Routines that begin with z compute
#: with complex numbers.
_ROUTINES = {
    "dgesv": "iipippi",
    "dgetrf": "iipip",
    "dpotrf": "cipi",
    "dgeqrf": "iipippi",
    "dorgqr": "iiipippi",
    "dgesdd": "ciipippipipip",
    "dsyevd": "ccipippipi",
    "dgeev": "ccipipppipipi",
    "dgels": "ciiipipipi",
    "dtrcon": "cccipippp",
    "dgelsd": "iiipipipdppip",
    "zgesv": "iipippi",
    "zgetrf": "iipip",
    "zpotrf": "cipi",
    "zgeqrf": "iipippi",
    "zungqr": "iiipippi",
    "zgesdd": "ciipippipipipp",
    "zheevd": "ccipippipipi",
    "zgeev": "ccipippipipip",
}

_TYPES = {"c": "i8", "i": "i32", "d": "double", "p": "ptr"}

_STUB = """
define i32 @{prefix}{name}({parameters}) {{
{slots}
  %status = alloca i32
  store i32 0, ptr %status
  %routine = load ptr, ptr @address_of_{name}
  call void %routine({arguments}, ptr %status)
  %result = load i32, ptr %status
  ret i32 %result
}}
"""


def compile_stubs(code: Sequence[bytes]) -> list[ObjectCode]:
    """Return the stubs that object files call: none if they call no routine."""
    names = names_after(PREFIX, code)
    if not names:
        return []
    return [compile_llvm("".join(map(_stub, names)))]


def _stub(name: str) -> str:
    """Return the stub and the setter of a routine as LLVM code."""
    kinds = list(enumerate(_ROUTINES[name]))
    slots = [
        f"  %slot{number} = alloca {_TYPES[kind]}\n  store {_TYPES[kind]} %value{number}, ptr %slot{number}"
        for number, kind in kinds
        if kind != "p"
    ]
    return settable_address(name, f"{SETTER}{name}") + _STUB.format(
        name=name,
        prefix=PREFIX,
        parameters=", ".join(f"{_TYPES[kind]} %value{number}" for number, kind in kinds),
        slots="\n".join(slots),
        arguments=", ".join(f"ptr %{'value' if kind == 'p' else 'slot'}{number}" for number, kind in kinds),
    )
