"""Keep TVM's theorem prover from replacing Python's handler of interrupts while it works.

TVM's compiler holds Z3, which installs a handler of SIGINT for the time of each proof about sizes. That
swallows an interrupt, and the handler that it restores lets system calls go on after one. TVM gives no access
to Z3's setting against it, ``ctrl_c``. But the library calls C's ``signal`` for nothing else, so its table of
imported functions gets another function in that place, which does nothing.

That is done on Linux, for x86-64 and arm64. Elsewhere an interrupt is lost if it comes during a proof.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

#: The kind of relocation that names a function's place in the table, by processor.
_JUMP_SLOT = {"x86_64": 7, "aarch64": 1026}

#: Tags of a library's dynamic section, from the specification of ELF.
_STRINGS, _SYMBOLS, _PLT_BYTES, _PLT_KIND, _PLT_RELOCATIONS, _RELOCATION_WITH_ADDEND = 5, 6, 2, 20, 23, 7

#: ``dlinfo``'s request for a library's ``struct link_map``.
_LINK_MAP = 2

#: The bytes of a symbol and of a relocation, where addresses have 64 bits.
_SYMBOL_BYTES, _RELOCATION_BYTES = 24, 24


class _LinkMap(ctypes.Structure):
    """The beginning of ``struct link_map``: where a library is loaded."""

    _fields_ = (("base", ctypes.c_uint64), ("name", ctypes.c_char_p), ("dynamic_section", ctypes.c_uint64))


def keep_handler(library: str = "libtvm_compiler.so") -> bool:
    """Let a loaded library call nothing in place of ``signal``; return whether it does.

    Nothing is changed where anything is not as expected.
    """
    kind = _JUMP_SLOT.get(platform.machine())
    if sys.platform != "linux" or kind is None or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    try:
        libc = ctypes.CDLL(None)
        signal, nothing = (
            ctypes.cast(function, ctypes.c_void_p).value or 0 for function in (libc.signal, libc.abs)
        )
        handle = ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_NOLOAD)._handle
        link_map = ctypes.POINTER(_LinkMap)()
        if libc.dlinfo(ctypes.c_void_p(handle), _LINK_MAP, ctypes.byref(link_map)):
            return False
        slots = [
            function for function in _slots(link_map.contents, b"signal", kind) if _is_writable(function)
        ]
    except (OSError, AttributeError):  # it is not loaded, or this C library has no such function
        return False
    if len(slots) != 1 or (slot := ctypes.c_uint64.from_address(slots[0])).value not in (signal, nothing):
        return False
    slot.value = nothing  # C's abs, which takes a number, too
    return True


def _slots(library: _LinkMap, function: bytes, kind: int) -> list[int]:
    """Return the addresses in a library's table of imported functions that hold the address of one."""
    entries = dict(_dynamic_entries(library.dynamic_section))
    needed = (_STRINGS, _SYMBOLS, _PLT_RELOCATIONS, _PLT_BYTES)
    if any(tag not in entries for tag in needed) or entries.get(_PLT_KIND) != _RELOCATION_WITH_ADDEND:
        return []
    # The linker of glibc has added the base to addresses there, that of musl has not.
    strings, symbols, relocations = (
        entries[tag] + (library.base if entries[tag] < library.base else 0) for tag in needed[:3]
    )
    slots = []
    for place in range(relocations, relocations + entries[_PLT_BYTES], _RELOCATION_BYTES):
        offset, info = (ctypes.c_uint64 * 2).from_address(place)
        name = ctypes.c_uint32.from_address(symbols + (info >> 32) * _SYMBOL_BYTES).value
        if info & 0xFFFFFFFF == kind and ctypes.string_at(strings + name) == function:
            slots.append(library.base + offset)
    return slots


def _dynamic_entries(address: int) -> list[tuple[int, int]]:
    """Return the tags and values of a dynamic section, which ends with the tag 0."""
    entries: list[tuple[int, int]] = []
    while True:
        tag, value = (ctypes.c_uint64 * 2).from_address(address + 16 * len(entries))
        if not tag:
            return entries
        entries.append((tag, value))


def _is_writable(address: int) -> bool:
    """Return whether this process may write to an address."""
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        bounds, access = line.split(maxsplit=2)[:2]
        begin, end = (int(bound, 16) for bound in bounds.split("-"))
        if begin <= address < end:
            return "w" in access
    return False
