"""Source text -> synr tree: Python's own parser, then synr's Compiler with exact spans. Knows no Relay."""

from nnmagic.tinynn.syntax.cell import parse
from nnmagic.tinynn.syntax.expressions import SIGNS

__all__ = ["SIGNS", "parse"]
