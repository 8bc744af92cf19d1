"""Legalize Relay operators: one module per family, each of which adds its rules to the table.

To add an operator: one line in the family's ``RULES.update``, and its row in
tests/engine/relax/legalize/test_operators.py.
"""

from importlib import import_module
from pkgutil import walk_packages

from nnmagic.engine.relax.legalize.registry import BLOCKED_RULES, RULES, OpCall, Rule, Value

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)  # adds its rules

__all__ = ["BLOCKED_RULES", "RULES", "OpCall", "Rule", "Value"]
