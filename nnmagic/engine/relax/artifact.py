"""Hold what a build produces: machine code, constants, and facts that a call needs.

The compiler makes an artifact; it runs without the compiler, in this process or in another one.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnmagic.engine import cpu, engine_error

#: The version of what an entry holds and of how machine code is called.
FORMAT = 7

#: A value as JSON has it.
Json = Any

#: The kinds: machine code alone, and kernels that the interpreter calls.
AOT, INTERPRETER = "direct", "evaluator"

#: The axis of a size that is the value of a parameter, an integer.
VALUE = -1

#: Where a constant begins: at a line of the cache, as what TVM allocates.
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled program.

    Attributes:
        kind: AOT or INTERPRETER.
        facts: what a call needs to know, as JSON.
        code: object files.
        constants: the arrays that the machine code reads.
        caller: the object file by which CPython calls an AOT program directly; empty if there is none.

    """

    kind: str
    facts: Mapping[str, Json]
    code: Sequence[bytes]
    constants: Sequence[np.ndarray] = field(default=())
    caller: bytes = b""

    def to_files(self) -> tuple[Json, dict[str, bytes]]:
        """Return the facts as JSON, and the files that ``from_files`` takes.

        Each constant begins at a multiple of a cache line in the file.
        """
        facts = {**self.facts, "kind": self.kind}
        files: dict[str, bytes] = {f"code{index}.o": code for index, code in enumerate(self.code)}
        if self.caller:
            files["caller.o"] = self.caller
        if self.constants:
            facts["constants"] = [constant.nbytes for constant in self.constants]
            files["constants"] = _join_constants(self.constants)
        return facts, files


def check_machine(facts: Mapping[str, Json], entry: str) -> None:
    """Raise EngineError where this machine cannot run a program; ``facts`` are its artifact's."""
    made_for = facts["machine"]
    if made_for != cpu.platform_name():
        raise engine_error(f"@{entry} was compiled for {made_for}, and this is {cpu.platform_name()}")
    lacking = cpu.missing_features(facts["instruction sets"])
    if lacking:
        raise engine_error(f"@{entry} was compiled for a CPU with {', '.join(lacking)}, which this one lacks")


def from_files(facts: Mapping[str, Json], files: Mapping[str, bytes | memoryview]) -> Artifact:
    """Return an artifact from the results of ``to_files``. Raises ValueError or KeyError for other input.

    The constants are parts of their file, which is copied unless it begins at a cache line.
    """
    sizes = [int(size) for size in facts.get("constants", ())]
    data = _align(np.frombuffer(files["constants"], np.uint8)) if sizes else np.empty(0, np.uint8)
    ends = np.cumsum([_round_up(size) for size in sizes], dtype=np.int64).tolist()
    if sizes and (min(sizes) < 0 or ends[-1] != data.size):
        raise ValueError(f"the constants have {data.size} bytes, not {ends[-1]}")
    constants = [data[end - _round_up(size) :][:size] for size, end in zip(sizes, ends, strict=True)]
    names = itertools.takewhile(files.__contains__, (f"code{index}.o" for index in itertools.count()))
    code = [bytes(files[name]) for name in names]
    caller = bytes(files.get("caller.o", b""))
    return Artifact(str(facts["kind"]), facts, code, constants, caller)


def _round_up(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _join_constants(constants: Sequence[np.ndarray]) -> bytes:
    """Return the bytes of constants, which may be large: they are copied once."""
    buffer = io.BytesIO()
    for constant in constants:
        buffer.write(np.ascontiguousarray(constant).reshape(-1).view(np.uint8).data)
        buffer.write(bytes(_round_up(constant.nbytes) - constant.nbytes))
    return buffer.getvalue()


def _align(data: np.ndarray) -> np.ndarray:
    """Return the bytes, or a copy that begins at a cache line."""
    if data.ctypes.data % _ALIGNMENT == 0:
        return data
    room = np.empty(data.size + _ALIGNMENT, np.uint8)
    copy = room[-room.ctypes.data % _ALIGNMENT :][: data.size]
    copy[...] = data
    return copy
