"""Elaborate ``import``: of libraries whose functions a cell knows, and of what is imported already."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from nnmagic.tinynn.builtins import MODULES
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.unsupported_syntax import STATEMENTS
from nnmagic.tinynn.values.values import FAILED, RefusalError

#: The libraries whose functions cells have, or name with what to write instead.
_LIBRARIES = {"nnmagic", "scipy", *(module.partition(".")[0] for module in MODULES)}


def elaborate_import(ctx: Elaboration, stmt: tree.Import) -> None:
    """Elaborate an import, which runs no code of the notebook. Raises RefusalError for any other module."""
    for name, (module, member) in stmt.names.items():
        value = _import(module, member)
        if value is None:
            ctx.environment.bindings.bind(name, FAILED, ctx.span(stmt.span))
            message, hint = STATEMENTS["Import"]
            raise RefusalError(message, ctx.span(stmt.span), hint=hint)
        ctx.environment.imports[name] = value


def imports_of_cell(statements: Sequence[tree.Import]) -> dict[str, object]:
    """Return what the imports above the functions of a cell bind.

    What a cell cannot use is left out: it is an error where a function mentions it.
    """
    names = {name: target for stmt in statements for name, target in stmt.names.items()}
    imported_names = {name: _import(*target) for name, target in names.items()}
    return {name: value for name, value in imported_names.items() if value is not None}


def _import(module: str, member: str) -> object:
    """Return a library, or a member of it; None where a cell knows nothing of it, or it is not there."""
    if module not in sys.modules and module.partition(".")[0] not in _LIBRARIES:
        return None
    try:
        value = import_module(module)
        if not member:
            return value
        missing = object()
        attribute = getattr(value, member, missing)
        return import_module(f"{module}.{member}") if attribute is missing else attribute
    except ImportError:
        return None
