"""Draw the numbers of NumPy's generator PCG64 from a state that is an array.

The state is six words: the two halves of PCG64's state, the low one first, those of its increment, whether
half of a word is left over from a draw of 32 bits, and that half.
"""

from __future__ import annotations

import ctypes
import struct
from functools import lru_cache
from typing import Any, Final

import numpy as np

from nnmagic.relay.types import TensorType

#: The type of a state.
STATE: Final = TensorType((6,), "uint64")

_WORD = (1 << 64) - 1


def state_of(generator: np.random.Generator) -> np.ndarray:
    """Return the state of a generator of PCG64."""
    if _is_plain_memory():
        address = generator.bit_generator.ctypes.state_address
        words, has_uint32, uinteger = _FIELDS.unpack(ctypes.string_at(address, _FIELDS.size))
        return np.frombuffer(
            bytearray(ctypes.string_at(words, 32) + _REST.pack(has_uint32, uinteger)), np.uint64
        )
    return _described_state(generator)


def set_state(generator: np.random.Generator, words: np.ndarray) -> None:
    """Set the state of a generator of PCG64."""
    if _is_plain_memory():
        address = generator.bit_generator.ctypes.state_address
        data, (place, *_) = words.tobytes(), _FIELDS.unpack(ctypes.string_at(address, _FIELDS.size))
        ctypes.memmove(place, data, 32)
        ctypes.memmove(address + 8, _FLAGS.pack(*_REST.unpack_from(data, 32)), 8)
        return
    state, state_high, inc, inc_high, has_uint32, uinteger = map(int, words)
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": state_high << 64 | state, "inc": inc_high << 64 | inc},
        "has_uint32": has_uint32,
        "uinteger": uinteger,
    }


#: What lies at the address of a generator's state: where its four words are, and what is left of a draw.
_FIELDS = struct.Struct("QiI")
_FLAGS = struct.Struct("iI")
_REST = struct.Struct("QQ")


def _described_state(generator: np.random.Generator) -> np.ndarray:
    state: Any = generator.bit_generator.state
    words = [part >> shift & _WORD for part in state["state"].values() for shift in (0, 64)]
    return np.array([*words, state["has_uint32"], state["uinteger"]], np.uint64)


@lru_cache(maxsize=1)
def _is_plain_memory() -> bool:
    """Return whether this NumPy keeps states as numba reads them, too: that takes a third of the time."""
    generator = np.random.default_rng(0)
    generator.integers(9, dtype=np.uint32)  # which leaves half of a word
    address = generator.bit_generator.ctypes.state_address
    words, *flags = _FIELDS.unpack(ctypes.string_at(address, _FIELDS.size))
    data = ctypes.string_at(words, 32) + _REST.pack(*flags)
    return struct.calcsize("P") == 8 and data == _described_state(generator).tobytes()


def seeded(seed: int) -> np.ndarray:
    """Return the state of ``default_rng(seed)``. Raises ValueError for a negative seed."""
    return state_of(np.random.default_rng(seed))


def draw(function: str, state: np.ndarray, like: np.ndarray, parameters: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return the state after a draw, and the numbers, in the shape and dtype of ``like``.

    Raises ValueError for parameters that a distribution does not have.
    """
    generator = np.random.Generator(np.random.PCG64())
    set_state(generator, state)
    numbers = _DRAWS.get(function, _draw_elements)(generator, function, like, parameters)
    return state_of(generator), numbers


def _draw_elements(
    generator: np.random.Generator, function: str, like: np.ndarray, parameters: tuple[Any, ...]
) -> Any:
    """Draw by the method of the function's name; ``standard_exponential inv`` also says the method."""
    name, _, method = function.partition(" ")
    keywords: dict[str, Any] = {"method": method} if method else {}
    if name in _WITH_DTYPE:
        keywords["dtype"] = like.dtype
    if name == "integers":
        keywords["endpoint"] = True
    given = (parameter[()] for parameter in parameters)
    return getattr(generator, name)(*given, size=like.shape, **keywords)


_WITH_DTYPE = ("random", "standard_normal", "standard_exponential", "standard_gamma", "integers")


def _draw_orders(generator: np.random.Generator, _function: str, like: np.ndarray, _parameters: Any) -> Any:
    rows = np.broadcast_to(np.arange(like.shape[1]), like.shape)
    return generator.permuted(rows, axis=1)


def _draw_choice(
    generator: np.random.Generator, function: str, like: np.ndarray, parameters: tuple[Any, ...]
) -> Any:
    """Draw different indices below a number; after its name, whether they are shuffled."""
    (count,) = parameters
    return generator.choice(int(count), like.size, replace=False, shuffle=function == "choice")


def _draw_by_weights(
    generator: np.random.Generator, function: str, like: np.ndarray, parameters: tuple[Any, ...]
) -> Any:
    (p,) = parameters
    return generator.choice(len(p), like.shape, replace=function == "weighted", p=p)


def _draw_rows(
    generator: np.random.Generator, function: str, like: np.ndarray, parameters: tuple[Any, ...]
) -> Any:
    """Draw vectors, which are the rows of the result."""
    name, _, method = function.partition(" ")
    keywords: dict[str, Any] = {"method": method} if method else {}
    given = [parameter[()] for parameter in parameters]
    return getattr(generator, name)(*given, size=like.shape[:-1], **keywords)


_DRAWS: dict[str, Any] = {
    "order": lambda generator, _function, like, _parameters: generator.permutation(like.size),
    "orders": _draw_orders,
    "choice": _draw_choice,
    "choice unshuffled": _draw_choice,
    "weighted": _draw_by_weights,
    "weighted different": _draw_by_weights,
    "multinomial": _draw_rows,
    "dirichlet": _draw_rows,
    "multivariate_hypergeometric marginals": _draw_rows,
    "multivariate_hypergeometric count": _draw_rows,
}
