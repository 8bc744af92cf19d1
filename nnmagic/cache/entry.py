"""Define the form of an entry, in the cache's directory or in a saved function: files and their checksums.

An entry is a JSON header, any files, and ``SHA256SUMS`` of them all, as ``sha256sum --check`` reads it. It
holds no pickle; an entry that is not exactly as it was written is damaged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

#: The names of the two files that every entry has.
HEADER, SUMS = "header.json", "SHA256SUMS"

#: A JSON value.
Json = Any


class DamagedError(ValueError):
    """An entry that is not as it was written."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of an entry: the header, as JSON, and the files by name."""

    header: Mapping[str, Json]
    files: Mapping[str, bytes | memoryview]


def to_members(content: Content) -> dict[str, bytes | memoryview]:
    """Return the files of an entry by name, the same for the same content."""
    header = {**content.header, "files": sorted(content.files)}
    members = {HEADER: json.dumps(header, indent=1).encode(), **content.files}
    sums = "".join(f"{_sum(data)}  {name}\n" for name, data in members.items())
    return {**members, SUMS: sums.encode()}


def from_members(read: Callable[[str], bytes | memoryview]) -> Content:
    """Return the content again; ``read`` returns a file by its name.

    Raises DamagedError and what ``read`` raises.
    """
    data = bytes(read(HEADER))
    sums = _parse_sums(bytes(read(SUMS)))
    if sums.get(HEADER) != _sum(data):
        raise DamagedError(f"{HEADER} was changed")
    try:
        header = json.loads(data)
        names = list(map(str, header.pop("files")))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{HEADER} is no header: {error}") from None
    files = {name: read(name) for name in names}
    for name, content in files.items():
        if sums.get(name) != _sum(content):
            raise DamagedError(f"{name} was changed")
    return Content(header, files)


def _sum(data: bytes | memoryview) -> str:
    import hashlib  # OpenSSL's library takes 3 ms to load

    return hashlib.sha256(data).hexdigest()


def _parse_sums(sums: bytes) -> dict[str, str]:
    lines = (line.partition("  ") for line in sums.decode(errors="replace").splitlines())
    return {name: digest for digest, _, name in lines}
