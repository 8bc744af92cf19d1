"""Parse source text to a synr tree: Python's own parser, then synr's Compiler with exact spans.

Depends on nothing of Relay.
"""

from nnmagic.tinynn.syntax.cell import parse
from nnmagic.tinynn.syntax.expressions import SIGNS

__all__ = ["SIGNS", "parse"]
