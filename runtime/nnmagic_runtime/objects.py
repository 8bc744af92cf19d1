"""Link object files in memory: those of nnmagic for Linux on x86-64, which is less than all of ELF.

Sections are copied to memory, and what they refer to is looked up: in the objects, among the functions that
stand for TVM's (``hooks``), in C's libraries. Addresses that are far away are in a table beside the code.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from nnmagic_runtime.memory import CodeMemory

#: What a header says (elf.h): the kind and the machine of the file, kinds and flags of sections.
_HEADER, _RELOCATABLE_X86_64 = b"\x7fELF\x02\x01\x01", (1, 62)
_SYMBOLS, _RELOCATIONS, _ZEROS, _UNWINDING = 2, 4, 8, 0x70000001
_WRITABLE, _LOADED, _CODE = 1, 2, 4

#: What a symbol says: how it is bound; from this number of a section on, that it is in none.
_LOCAL, _WEAK, _RESERVED = 0, 2, 0xFF00

#: How the names of variables begin that hold addresses of TVM's functions.
_HOOKS = "__TVM"

#: The relocations: an address; a distance, of a call also by way of a jump; the distance of a word of the
#: table that has the address.
_ADDRESS, _DISTANCES, _OF_WORD = 1, (2, 4), (9, 41, 42)

#: The instruction that jumps to the address in a word, whose distance follows.
_JUMP = b"\xff\x25"


class _Section(NamedTuple):
    """The header of a section."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_bytes: int

    @property
    def range(self) -> int:
        """The number of the range of memory that it goes to."""
        return 0 if self.flags & _CODE else 2 if self.flags & _WRITABLE else 1


class _Symbol(NamedTuple):
    """A symbol; ``place``: where it is in the memory, None if the object does not define it."""

    name: str
    binding: int
    place: int | None


class _Object:
    """An object file that was taken apart."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        if data[:7] != _HEADER or struct.unpack_from("<HH", data, 16) != _RELOCATABLE_X86_64:
            raise RuntimeError("the machine code is no object file of Linux on x86-64")
        (begin,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
        headers = range(begin, begin + 64 * count, 64)
        self.sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", data, at)) for at in headers]
        #: Where the sections that are loaded begin in the memory, by their numbers.
        self.places: dict[int, int] = {}
        self.symbols: list[_Symbol] = []

    def tables(self, kind: int) -> list[_Section]:
        """Return the sections of a kind."""
        return [section for section in self.sections if section.kind == kind]

    def loaded(self) -> Iterator[tuple[int, _Section]]:
        """Yield the sections that are loaded, with their numbers."""
        for number, section in enumerate(self.sections):
            if section.flags & _LOADED and section.kind != _UNWINDING:
                yield number, section

    def read_symbols(self) -> None:
        """Read the symbols, once the places of sections are known."""
        for table in self.tables(_SYMBOLS):
            names = self.sections[table.link].offset
            for at in range(table.offset, table.offset + table.size, 24):
                name, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
                begin = names + name
                text = self.data[begin : self.data.index(b"\0", begin)].decode()
                place = self.places[section] + value if section in self.places else None
                if section >= _RESERVED and info >> 4 != _LOCAL:
                    raise RuntimeError(f"the machine code has a symbol of a kind that is not known: {text}")
                self.symbols.append(_Symbol(text, info >> 4, place))

    def relocations(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield the place, the kind, the number of the symbol and the addend of each relocation."""
        for table in self.tables(_RELOCATIONS):
            if table.info in self.places:
                for at in range(table.offset, table.offset + table.size, 24):
                    offset, info, addend = struct.unpack_from("<QQq", self.data, at)
                    yield self.places[table.info] + offset, info & 0xFFFFFFFF, info >> 32, addend


class Linked:
    """Object files that are linked; ``addresses`` has those of their symbols by name."""

    def __init__(self, code: Sequence[bytes], hooks: Mapping[str, int]) -> None:
        """Link object files; ``hooks`` are addresses that their variables of these names get.

        Raises RuntimeError for other data, and for what is not found; OSError without memory for code.
        """
        objects = [_Object(data) for data in code]
        ends = [0, 0, 0]
        for each in objects:
            for number, section in each.loaded():
                begin = _aligned(ends[section.range], section.align)
                each.places[number], ends[section.range] = begin, begin + section.size
        # Each symbol may need a jump in the code and a word among the constants, of eight bytes.
        most = 8 * sum(section.size // 24 for each in objects for section in each.tables(_SYMBOLS))
        ends[:2] = [_aligned(end, 8) for end in ends[:2]]
        self._memory = CodeMemory([ends[0] + most, ends[1] + most, ends[2]])
        self._base, begins = self._memory.address, self._memory.begins
        self._free_jump, self._free_word = begins[0] + ends[0], begins[1] + ends[1]
        self._jumps, self._words = dict[int, int](), dict[int, int]()
        for each in objects:
            self._load(each, begins)
        #: Where symbols are defined that all objects see; a weak one gives way to any other.
        self._defined: dict[str, int] = {}
        for is_weak in (False, True):
            for symbol in (symbol for each in objects for symbol in each.symbols):
                if symbol.binding != _LOCAL and symbol.place is not None:
                    if (symbol.binding == _WEAK) == is_weak:
                        self._defined.setdefault(symbol.name, self._base + symbol.place)
                    if symbol.name.startswith(_HOOKS):
                        self._write("<Q", symbol.place, _found(hooks, symbol.name))
        for each in objects:
            for place, kind, number, addend in each.relocations():
                self._relocate(place, kind, each.symbols[number], addend)
        self._memory.protect()
        self.addresses = self._defined

    def _load(self, each: _Object, begins: Sequence[int]) -> None:
        """Copy the sections of an object to their places, and find its symbols."""
        for number, section in each.loaded():
            begin = each.places[number] = each.places[number] + begins[section.range]
            if section.kind != _ZEROS:
                content = each.data[section.offset : section.offset + section.size]
                self._memory.bytes[begin : begin + section.size] = content
        each.read_symbols()

    def _write(self, form: str, place: int, number: int) -> None:
        try:
            struct.pack_into(form, self._memory.bytes, place, number)
        except struct.error as error:
            raise RuntimeError(f"the machine code is too far from what it refers to: {error}") from None

    def _address(self, symbol: _Symbol) -> int:
        if symbol.binding == _LOCAL and symbol.place is not None:
            return self._base + symbol.place
        return self._defined.get(symbol.name) or _address_in_c(symbol.name)

    def _relocate(self, place: int, kind: int, symbol: _Symbol, addend: int) -> None:
        address = self._address(symbol)
        if kind == _ADDRESS:
            self._write("<Q", place, address + addend)
            return
        if kind in _OF_WORD:
            address = self._base + self._word(address)
        elif kind not in _DISTANCES:
            raise RuntimeError(f"the machine code has a relocation of the kind {kind}, which is not known")
        elif symbol.place is None and symbol.name not in self._defined:
            address = self._base + self._jump(address)
        self._write("<i", place, address + addend - self._base - place)

    def _word(self, address: int) -> int:
        """Return the place of the word that has an address."""
        if address not in self._words:
            self._words[address] = self._free_word
            self._write("<Q", self._free_word, address)
            self._free_word += 8
        return self._words[address]

    def _jump(self, address: int) -> int:
        """Return the place of an instruction that jumps to an address."""
        if address not in self._jumps:
            place = self._jumps[address] = self._free_jump
            self._memory.bytes[place : place + 2] = _JUMP
            self._write("<i", place + 2, self._word(address) - place - 6)
            self._free_jump += 8
        return self._jumps[address]


def _aligned(size: int, align: int) -> int:
    return -(-size // max(align, 1)) * max(align, 1)


def _found(hooks: Mapping[str, int], name: str) -> int:
    if name not in hooks:
        raise RuntimeError(
            f"the machine code calls {name.strip('_')} of TVM, which the runtime does not have"
        )
    return hooks[name]


@cache
def _address_in_c(name: str) -> int:
    """Return the address of a function of C's libraries. Raises RuntimeError if there is none."""
    for library in (None, "libm.so.6"):  # Python itself has been linked with both as a rule
        with suppress(OSError, AttributeError):
            return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0
    raise RuntimeError(f"the machine code calls {name}, which is in neither libm nor libc")
