"""Write static libraries: archives of object files with an index of symbols, in the form of GNU's ``ar``."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_MAGIC, _END = b"!<arch>\n", b"`\n"


def archive(name: str, code: bytes, symbols: Sequence[str]) -> bytes:
    """Return the archive of one object file.

    Args:
        name: the file's, of 15 characters at most.
        code: what it holds.
        symbols: those that it defines for others.

    """
    names = b"".join(f"{symbol}\0".encode() for symbol in symbols)
    index_size = 4 + 4 * len(symbols) + len(names)
    first = len(_MAGIC) + 60 + index_size + index_size % 2
    index = struct.pack(">I", len(symbols)) + struct.pack(">I", first) * len(symbols) + names
    return _MAGIC + _member("/", index) + _member(f"{name}/", code)


def _member(name: str, data: bytes) -> bytes:
    """Return a file of an archive, as nobody wrote it at no time: the same bytes every time."""
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}".encode() + _END
    return head + data + b"\n" * (len(data) % 2)
