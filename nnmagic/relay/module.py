"""Define a Relay module: named functions and data types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nnmagic.relay.expr import Constructor, Expr, Function
from nnmagic.relay.types import GlobalTypeVar, Type, TypeVar


@dataclass(frozen=True, slots=True, eq=False)
class TypeData:
    """``type List[A] { Cons(A, List[A]), Nil, }``: an algebraic data type."""

    header: GlobalTypeVar
    type_vars: tuple[TypeVar, ...]
    constructors: tuple[Constructor, ...]


#: The ``printed_types`` of a module that nobody will print: passes on it do not ask for them anew.
NOT_PRINTED: Mapping[Expr, Type] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Module:
    """A frozen module of functions and data types by name; passes return new ones."""

    functions: Mapping[str, Function] = field(default_factory=dict)
    types: Mapping[str, TypeData] = field(default_factory=dict)
    #: The types that the typed text shows where they differ from the ``checked_type``: the original Relay
    #: forgets some of what it knows, see compat/printed_types.py.
    printed_types: Mapping[Expr, Type] = field(default_factory=dict)
    #: What ``call_graph`` found, once for each module.
    calls: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False)

    def astext(self, show_meta_data: bool = True, *, exact: bool = False) -> str:
        """Return the text with the version line and, with ``meta[...]`` references, the metadata section.

        With ``show_meta_data=False`` a comment replaces the section, as in Relay. ``exact``: write
        numbers that Relay's six digits would round so that they can be read back as they are.
        """
        from nnmagic.relay.text.printer import module_text

        return module_text(self, show_meta_data=show_meta_data, exact=exact)

    def __str__(self) -> str:
        """Return the body only: no version line, no metadata."""
        from nnmagic.relay.text.printer import module_body

        return module_body(self)

    def __repr__(self) -> str:
        """Return the text, as TVM shows a module."""
        return str(self)
