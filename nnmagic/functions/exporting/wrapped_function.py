"""What wrappers of exported functions do with the arguments of a C function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.c.entry_code import CArgument
    from nnmagic.engine.relax.codegen.c.functions import CFunction


@dataclass(frozen=True)
class WrappedFunction:
    """The arguments of a C function by what a wrapper does with them."""

    function: CFunction

    @property
    def given(self) -> list[CArgument]:
        """Those that the wrapper takes."""
        return [
            argument for argument in self.function.arguments if argument.role in ("in", "inout", "copied")
        ]

    @property
    def results(self) -> list[CArgument]:
        """Those that it returns."""
        return [argument for argument in self.function.arguments if argument.role in ("out", "made")]

    def sizes(self, length: str) -> Iterator[tuple[str, str]]:
        """Yield each size that C takes, and ``length`` with the array and the axis that have it."""
        named = [each.name for each in self.function.arguments if each.role == "size"]
        for argument in self.given:
            for axis, size in enumerate(argument.shape or ()):
                if size in named:
                    named.remove(size)
                    yield size, length.format(name=argument.name, axis=axis)

    def checks(self) -> Iterator[tuple[CArgument, int, str]]:
        """Yield the axes of arrays whose size is known by then: a number, or that of another axis."""
        defined: set[str] = {each.name for each in self.function.arguments if each.role == "size"}
        for argument in self.given:
            for axis, size in enumerate(argument.shape or ()):
                if size in defined:
                    defined.remove(size)
                else:
                    yield argument, axis, size
