"""Elaborate a cell's tree to Relay: evaluate what is static, emit code for the rest."""

from nnmagic.tinynn.elaborate.cell import elaborate_cell, new_elaboration
from nnmagic.tinynn.elaborate.context import Elaboration

__all__ = ["Elaboration", "elaborate_cell", "new_elaboration"]
