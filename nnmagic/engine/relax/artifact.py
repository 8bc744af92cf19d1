"""Hold what a build produces: machine code, TVM's bytecode, constants, and facts that a call needs.

The compiler makes an artifact; it runs without the compiler, in this process or in another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

#: A value as JSON has it.
Json = Any

#: The kinds: one machine function; a program of TVM's virtual machine; kernels of one for the interpreter.
AOT, VM, INTERPRETER = "direct", "machine", "evaluator"

#: Where a constant begins: at a line of the cache, as what TVM allocates.
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled program.

    Attributes:
        kind: AOT, VM or INTERPRETER.
        facts: what a call needs to know, as JSON.
        code: object files.
        bytecode: TVM's; empty for AOT.
        constants: the arrays that an AOT program reads.

    """

    kind: str
    facts: Mapping[str, Json]
    code: Sequence[bytes]
    bytecode: bytes = b""
    constants: Sequence[np.ndarray] = field(default=())

    def to_files(self) -> tuple[Json, dict[str, bytes]]:
        """Return the facts as JSON, and the files that ``from_files`` takes."""
        facts = {**self.facts, "kind": self.kind}
        files = {f"code{index}.o": code for index, code in enumerate(self.code)}
        if self.bytecode:
            files["bytecode"] = self.bytecode
        if self.constants:
            facts["constants"] = [constant.nbytes for constant in self.constants]
            files["constants"] = b"".join(_bytes(constant) for constant in self.constants)
        return facts, files


def from_files(facts: Mapping[str, Json], files: Mapping[str, bytes]) -> Artifact:
    """Return an artifact from the results of ``to_files``. Raises ValueError or KeyError for other input."""
    sizes = [int(size) for size in facts.get("constants", ())]
    data = np.frombuffer(files["constants"], np.uint8) if sizes else np.empty(0, np.uint8)
    if sum(sizes) != data.size:
        raise ValueError(f"the constants have {data.size} bytes, not {sum(sizes)}")
    ends = np.cumsum(sizes, dtype=np.int64).tolist()
    constants = [_copy_aligned(data[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
    names = itertools.takewhile(files.__contains__, (f"code{index}.o" for index in itertools.count()))
    code, bytecode = [files[name] for name in names], files.get("bytecode", b"")
    return Artifact(str(facts["kind"]), facts, code, bytecode, constants)


def _bytes(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def _copy_aligned(data: np.ndarray) -> np.ndarray:
    """Return a copy that begins at a cache line."""
    room = np.empty(data.size + _ALIGNMENT, np.uint8)
    copy = room[-room.ctypes.data % _ALIGNMENT :][: data.size]
    copy[...] = data
    return copy
