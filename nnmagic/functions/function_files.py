"""Read the bytes of a saved function: its parts, checked. What `saving` adds needs the compiler's Relay."""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.cache.entry import Content, from_members
from nnmagic.functions.caching.plain_data import from_npy

if TYPE_CHECKING:
    import zipfile

#: The version of the form of the file; a file of another version is refused.
FORMAT = 7

#: The names of the files beside those of the machine code: Relay's text, and how those of arrays end.
TEXT, ARRAY = "relay.txt", ".npy"

#: What reading data raises that ``to_bytes`` did not make.
OF_OTHER_DATA = (
    *(zlib.error, EOFError, NotImplementedError),
    RuntimeError,  # an encrypted part; RecursionError, of data that is nested too deep
    *(ValueError, TypeError, KeyError, IndexError, AttributeError),
)


def read_parts(data: bytes) -> tuple[dict[str, Any], list[np.ndarray], Content]:
    """Return the definition, its arrays and the machine code of a function.

    Raises one of ``OF_OTHER_DATA`` for other data; ``reason_of`` says why.
    """
    import zipfile  # which takes 5 ms to import, with all that it imports

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_sizes(archive, len(data))
            content = from_members(archive.read)
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from error
    head = content.header["definition"]
    if head["format"] != FORMAT:
        raise ValueError(f"its format is {head['format']}, this version of nnmagic reads {FORMAT}")
    files = content.files
    arrays = [from_npy(files[f"{index}{ARRAY}"], dtype) for index, dtype in enumerate(head["dtypes"])]
    return head, arrays, _code_of(content)


def _check_sizes(archive: zipfile.ZipFile, nbytes: int) -> None:
    """Raise ValueError for an archive whose parts take more memory than the archive itself."""
    if sum(part.file_size for part in archive.infolist()) > nbytes:
        raise ValueError("its parts are larger than the file")


def reason_of(error: Exception) -> str:
    """Return why data is no function, for a message; a KeyError names only the missing part."""
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__


def _code_of(content: Content) -> Content:
    """Return only the machine code of a file's content."""
    header = {name: part for name, part in content.header.items() if name != "definition"}
    ours = {name for name in content.files if name == TEXT or name.endswith(ARRAY)}
    files = {name: data for name, data in content.files.items() if name not in ours}
    return Content(header, files)
