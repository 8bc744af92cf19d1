"""Find the tables of NumPy's ziggurats (Marsaglia and Tsang 2000), by which most numbers take one draw.

NumPy's library does not give them away, so it is asked: a generator that draws chosen words shows the width
of each layer, and below which words a number is accepted at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from nnmagic.engine.relax.runtime.numpy_random import address_of

_LAYERS = 256

#: How far a limit may be from what the widths of two layers say.
_NEAR = 8

_WORD, _HALF, _FRACTION = (
    ctypes.CFUNCTYPE(kind, ctypes.c_void_p) for kind in (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_double)
)


class _Generator(ctypes.Structure):
    """NumPy's struct of a generator."""

    _fields_ = (
        ("state", ctypes.c_void_p),
        ("next_word", _WORD),
        ("next_half", _HALF),
        ("next_fraction", _FRACTION),
        ("next_raw", _WORD),
    )


@dataclass(frozen=True, slots=True)
class Ziggurat:
    """A ziggurat: a number is ``bits * widths[layer]`` if the bits are less than ``limits[layer]``.

    ``layer_shift`` and ``bits_shift``: where both are in a word; ``sign``: the bit that says whether the
    number is negative, if there is one.
    """

    name: str
    layer_shift: int
    bits_shift: int
    bits: int
    sign: int | None
    widths: tuple[float, ...]
    limits: tuple[int, ...]


#: Where the parts of a word are: the shifts of the layer and of the bits, how many of these, and the sign.
_PARTS: dict[str, tuple[int, int, int, int | None]] = {
    "standard_normal": (0, 9, 52, 8),
    "standard_exponential": (3, 11, 53, None),
}


@cache
def ziggurat(name: str) -> Ziggurat:
    """Return the ziggurat of a function of NumPy's."""
    layer_shift, bits_shift, bits, sign = _PARTS[name]
    draw = _asker(name)

    def is_accepted(layer: int, value: int) -> bool:
        return draw(value << bits_shift | layer << layer_shift)[1] == 1

    widths, limits = list[float](), list[int]()
    for layer in range(_LAYERS):
        width, count = draw(1 << bits_shift | layer << layer_shift)
        widths.append(width if count == 1 else 0.0)
        low, high = 0, 1 << bits
        if layer > 1 and widths[layer - 1] and widths[layer]:  # what the layers' widths say, nearly
            near = int(widths[layer - 1] / widths[layer] * high)
            if is_accepted(layer, near - _NEAR) and not is_accepted(layer, near + _NEAR):
                low, high = near - _NEAR, near + _NEAR
        while low < high:  # the first bits that are not accepted
            middle = (low + high) // 2
            low, high = (middle + 1, high) if is_accepted(layer, middle) else (low, middle)
        limits.append(low)
    return Ziggurat(name, layer_shift, bits_shift, bits, sign, tuple(widths), tuple(limits))


def _asker(name: str) -> Callable[[int], tuple[float, int]]:
    """Return a function that gives the number for a word, and how many words that took."""
    words: list[int] = []
    asked = [0]

    def next_word(_state: object) -> int:
        asked[0] += 1
        return words.pop() if words else 1 << 40  # in a wide layer, where it is accepted

    def next_half(_state: object) -> int:
        asked[0] += 1
        return 0

    def next_fraction(_state: object) -> float:
        asked[0] += 1
        return 0.5

    generator = _Generator(
        None, _WORD(next_word), _HALF(next_half), _FRACTION(next_fraction), _WORD(next_word)
    )
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)(address_of(name))

    def ask(word: int) -> tuple[float, int]:
        words[:] = [word]
        asked[0] = 0
        return function(ctypes.addressof(generator)), asked[0]

    return ask
