"""synr tree -> Relay: an abstract interpretation that decides what is known and emits code for the rest."""

from nnmagic.tinynn.elaborate.cell import Elaborator

__all__ = ["Elaborator"]
