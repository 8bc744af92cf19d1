"""What the names in a function mean while it is parsed. Knows the IR only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnmagic.relay.expr import Constructor, Expr, Var


@dataclass(slots=True)
class Scope:
    """What names mean: of the module (shared by its functions) and of the function at hand."""

    constructors: Mapping[str, Constructor]
    graph_of_others: dict[str, Expr]
    variables: dict[str, Var] = field(default_factory=dict)
    graph: dict[str, Expr] = field(default_factory=dict)
    _shadowed: list[tuple[str, Var | None]] = field(default_factory=list)

    def bind(self, name: str, var: Var) -> None:
        """Gives ``name`` a new meaning until ``leave``."""
        self._shadowed.append((name, self.variables.get(name)))
        self.variables[name] = var

    def enter(self) -> int:
        """A mark to give to ``leave``."""
        return len(self._shadowed)

    def leave(self, mark: int) -> None:
        """Forgets what was bound since ``mark``."""
        while len(self._shadowed) > mark:
            name, before = self._shadowed.pop()
            if before is None:
                del self.variables[name]
            else:
                self.variables[name] = before
