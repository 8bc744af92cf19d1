"""Write loops over a list of lists as loops over the numbers of the inner lists, or over their keys."""

from __future__ import annotations

import ast as py
import operator
from collections.abc import Callable

from nnmagic.tinynn.syntax import ragged_texts as texts
from nnmagic.tinynn.syntax.names_in_python import substitute_names
from nnmagic.tinynn.syntax.ragged_changes import RaggedChanges
from nnmagic.tinynn.syntax.ragged_makers import OtherUseError, is_empty_list, read_outside

#: What replaces names in a loop's body.
_InPlace = dict[str, Callable[[], py.expr]]


class Loops(RaggedChanges):
    """Rewrites loops over a list of lists."""

    def found_or_none(self, node: py.expr) -> list[py.stmt] | None:
        """Return what finds the list in ``name.get(key, [])``; None for anything else."""
        match node:
            case py.Call(
                func=py.Attribute(attr="get", value=py.Name(id=name)), args=[key, other], keywords=[]
            ) if name == self.name and self.is_dictionary:
                if is_empty_list(other) or (isinstance(other, py.Tuple) and not other.elts):
                    return self.text(node, texts.FOUND_OR_NONE, index=py.unparse(self.read(key)))
        return None

    def by_index(self, stmt: py.For) -> py.For:
        """Return a loop over the inner lists as one over their numbers, or their keys."""
        in_place: _InPlace = {}
        first: list[py.stmt] = []
        over, target = self._numbers(stmt.iter, stmt.target, in_place, first)
        if over is stmt.iter:
            return stmt
        for name in in_place:
            if read_outside(self.function, stmt, name):
                raise OtherUseError
        body = list(stmt.body)
        match body[0]:  # rows = np.array(rows)
            case py.Assign(targets=[py.Name(id=name)], value=value) if name in in_place:
                changed = substitute_names(value, in_place)
                assert isinstance(changed, py.expr)
                body[0] = py.copy_location(py.Assign([py.Name(name, py.Store())], changed), body[0])
                in_place = {other: made for other, made in in_place.items() if other != name}
                first, body = [*first, body[0]], body[1:]
        changed_body = [substitute_names(each, in_place) for each in body]
        loop = py.For(target, over, [*first, *changed_body], stmt.orelse)  # type: ignore[list-item]  # statements
        return py.fix_missing_locations(py.copy_location(loop, stmt))

    def _numbers(
        self, node: py.expr, target: py.expr, in_place: _InPlace, first: list[py.stmt]
    ) -> tuple[py.expr, py.expr]:
        """Return what goes over numbers, or keys, where a loop's head goes over inner lists, and its target.

        ``in_place`` gets what stands for the names of inner lists, and ``first`` what each round does first.
        """

        def stand_for(name: py.expr, index: str) -> None:
            if not isinstance(name, py.Name):
                raise OtherUseError
            text = f"{self.name}[{index}]"
            in_place[name.id] = lambda: py.parse(text, mode="eval").body

        slot = py.Name(self.names["slot"], py.Load())
        match node, target:
            case py.Name(id=name), _ if name == self.name and self.is_dictionary:
                return slot, target
            case py.Name(id=name), _ if name == self.name:
                index = self.new("step")
                stand_for(target, index)
                return self.expression(node, f"range(len({name}))"), py.Name(index, py.Store())
            case py.Call(func=py.Attribute(attr="items", value=py.Name(id=name)), args=[]), py.Tuple(
                elts=[key, inner]
            ) if name == self.name:
                index = self.new("key")
                first += self.text(node, f"{py.unparse(key)} = {index}")
                stand_for(inner, index)
                return slot, py.Name(index, py.Store())
            case py.Call(func=py.Attribute(attr="values", value=py.Name(id=name)), args=[]), _ if (
                name == self.name
            ):
                index = self.new("key")
                stand_for(target, index)
                return slot, py.Name(index, py.Store())
            case py.Call(func=py.Name(id="enumerate"), args=[only, *start]), py.Tuple(elts=[number, inner]):
                over, inner = self._numbers(only, inner, in_place, first)
                made = py.Tuple([number, inner], py.Store())
                return (node, target) if over is only else (py.Call(node.func, [over, *start], []), made)
            case py.Call(func=py.Name(id="zip"), args=args), py.Tuple(elts=parts) if len(args) == len(parts):
                pairs = [self._numbers(*each, in_place, first) for each in zip(args, parts, strict=True)]
                overs = [over for over, _ in pairs]
                if all(map(operator.is_, overs, args)):
                    return node, target
                return py.Call(node.func, overs, []), py.Tuple([part for _, part in pairs], py.Store())
            case py.Call(func=py.Name(id="reversed" | "list" | "tuple" | "sorted" as word), args=[only]), _:
                if node.keywords or (word == "sorted" and not self.is_dictionary):
                    return node, target
                over, new = self._numbers(only, target, in_place, first)
                return (node, target) if over is only else (py.Call(node.func, [over], []), new)
        return node, target
