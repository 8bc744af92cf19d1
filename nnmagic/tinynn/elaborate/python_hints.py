"""Drop the type hints of Python that tell a compiler nothing, such as ``str`` and ``list[float]``.

``np.ndarray`` alone is one of a parameter, and ``None`` of a result. A parameter with such a hint takes
what each call gives, as one without a type.
"""

from __future__ import annotations

import dataclasses

import attr
from synr import ast

from nnmagic.tinynn.analysis.bound_names import find_mentioned_names, walk
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.namespace.compiled_values import as_compiled_type, as_record_type
from nnmagic.tinynn.namespace.lookup import look_up
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.tree_building import map_parts
from nnmagic.tinynn.types.annotations import DTYPES

#: Arrays of any dtype and rank; people write the function, too.
_ARRAYS = ("ndarray", "NDArray", "array")
#: Classes of Python and of its typing that no cell has as types of its own.
_HINTS = frozenset(
    (
        *("str", "bytes", "bytearray", "list", "dict", "set", "frozenset", "tuple", "object", "Callable"),
        *("List", "Dict", "Set", "FrozenSet", "Sequence", "MutableSequence", "Iterable", "Iterator"),
        *("Collection", "Mapping", "MutableMapping", "DefaultDict", "Deque", "Counter", "Literal"),
        *("Hashable", "Sized", "ArrayLike", "Number", "Real", "Integral"),
    )
)
#: Those that mean something in a cell where they have brackets.
_OWN = frozenset(("tuple", "Tuple", "Callable", "Optional", "Union"))
#: Names of cells, which no hint of Python has.
_DTYPES = frozenset((*DTYPES, "Tensor"))
#: What a type of Python's alone mentions beside hints.
_PLAIN = frozenset(
    (
        *("float", "int", "bool", "complex", "np", "numpy", "ndarray", "Any", "None"),
        *("typing", "t", "collections", "abc"),
    )
)


def without_hints(ctx: Elaboration, cell: tree.CellNode) -> tree.CellNode:
    """Return a cell whose functions have types of cells alone."""
    funcs = {name: _of_function(ctx, each, cell) for name, each in cell.funcs.items()}
    return attr.evolve(cell, funcs=funcs)


def _of_function(
    ctx: Elaboration, definition: tree.DefinitionNode, cell: tree.CellNode
) -> tree.DefinitionNode:

    def is_hint(node: ast.Node) -> bool:
        return _last_name(node) in _ARRAYS or _is_hint(ctx, node, cell)

    params = [
        attr.evolve(each, ty=None) if each.ty is not None and is_hint(each.ty.expr) else each
        for each in definition.params
    ]
    result = definition.ret_type
    if result is not None and (_is_none(result.expr) or _is_hint(ctx, result.expr, cell)):
        result = None

    def inside(node: ast.Node) -> ast.Node:
        if isinstance(node, tree.DefinitionNode):
            return _of_function(ctx, node, cell)
        return map_parts(node, inside)

    has_functions = any(isinstance(part, tree.DefinitionNode) for part in walk(definition.body))
    body = inside(definition.body) if has_functions else definition.body
    return attr.evolve(definition, params=params, ret_type=result, body=body)


def _is_hint(ctx: Elaboration, node: ast.Node, cell: tree.CellNode) -> bool:
    """Return whether a type is one of Python's, or of the notebook, that a cell knows nothing of."""
    name = _last_name(node)
    if name in cell.types:
        return False
    if name:
        value = look_up(ctx.resolver.namespace, name) if isinstance(node, ast.Var) else MISSING
        if as_compiled_type(value) is not None or as_record_type(value) is not None:
            return False
        if name in _HINTS or not isinstance(value, type):
            return name in _HINTS
        return dataclasses.is_dataclass(value) or hasattr(value, "_fields")
    parts = _parts_of(node)
    if parts is None:
        return False
    owner, inner = parts
    if owner in cell.types or _DTYPES & find_mentioned_names(node):
        return False
    if owner in _HINTS - _OWN:
        return True
    if owner == "Callable":
        return find_mentioned_names(node) <= _PLAIN | _HINTS
    is_open = owner in ("tuple", "Tuple") and any(isinstance(each, tree.EllipsisLiteral) for each in inner)
    return owner in (*_OWN, "|") and (is_open or any(_is_hint(ctx, each, cell) for each in inner))


def _is_none(node: ast.Node) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _last_name(node: ast.Node) -> str:
    if isinstance(node, ast.Var):
        return str(node.id.name)
    return str(node.field.name) if isinstance(node, ast.Attr) else ""


def _parts_of(node: ast.Node) -> tuple[str, list[ast.Node]] | None:
    """Return the name before the brackets of a type, or ``|``, and the types inside; None of others."""
    if not isinstance(node, ast.Call) or not isinstance(node.func_name, ast.Op):
        return None
    if node.func_name.name is ast.BuiltinOp.BitOr:
        return "|", list(node.params)
    if node.func_name.name is not ast.BuiltinOp.Subscript:
        return None
    inner = list(node.params[1].values)
    if len(inner) == 1 and isinstance(inner[0], ast.Tuple):
        inner = list(inner[0].values)
    return _last_name(node.params[0]), inner
