"""Write the functions of `heapq` that change a list as the loops that they are."""

from __future__ import annotations

import ast as py
import textwrap
from collections.abc import Callable, Iterator

#: Moves a hole down to a leaf, along the smaller children, and up again to the place of what is to fill it,
#: from ``top`` on.
_SINK = """
while 2 * {at} + 1 < len({heap}):
    {child} = 2 * {at} + 1
    if {child} + 1 < len({heap}) and not {heap}[{child}] < {heap}[{child} + 1]:
        {child} = {child} + 1
    {heap}[{at}] = {heap}[{child}]
    {at} = {child}
"""
_CLIMB = """
while {at} > {top} and {moved} < {heap}[({at} - 1) // 2]:
    {heap}[{at}] = {heap}[({at} - 1) // 2]
    {at} = ({at} - 1) // 2
{heap}[{at}] = {moved}
"""


def _under(head: str, body: str) -> str:
    return f"{head}\n{textwrap.indent(body.strip(), '    ')}\n"


_CLIMB_TO_ROOT = _CLIMB.replace("{top}", "0")
_TAKE = "{item} = {heap}.pop()\n" + _under(
    "if {heap}:", "{moved}, {item} = {item}, {heap}[0]\n{at} = {function}(0)" + _SINK + _CLIMB_TO_ROOT
)
#: What each function does; ``item`` is its result. ``function`` is called with a number, which it gives back
#: where it is the library's.
_HEAPS = {
    "heappush": "{heap}.append({new})\n{at} = {function}(len({heap}) - 1)\n{moved} = {heap}[{at}]"
    + _CLIMB_TO_ROOT,
    "heappop": _TAKE,
    "heapreplace": "if not {heap}:\n    raise IndexError('index out of range')\n{heap}.append({new})\n"
    + _TAKE,
    "heappushpop": "{item} = {new}\n"
    + _under("if {heap} and {heap}[0] < {item}:", "{heap}.append({item})\n" + _TAKE),
    "heapify": _under(
        "for {top} in range({function}(len({heap}) // 2) - 1, -1, -1):",
        "{at} = {top}\n{moved} = {heap}[{at}]" + _SINK + _CLIMB,
    ),
}
#: The functions that take another item, and those that have a result.
_TAKES_ITEM = ("heappush", "heapreplace", "heappushpop")
_GIVES_ITEM = ("heappop", "heapreplace", "heappushpop")

#: The attribute that marks calls of functions which the cell itself defines.
_OWN = "calls_own_function"


def mark_own_calls(module: py.Module) -> None:
    """Mark the calls of functions of the cell that have a name of `heapq`."""
    defined = {node.name for node in py.walk(module) if isinstance(node, py.FunctionDef)} & _HEAPS.keys()
    for node in py.walk(module) if defined else ():
        if isinstance(node, py.Call) and isinstance(node.func, py.Name) and node.func.id in defined:
            setattr(node, _OWN, True)


def heap_function(call: py.expr) -> str:
    """Return the function of `heapq` that a call changes a list of a name by; "" for anything else."""
    match call:
        case py.Call() if hasattr(call, _OWN):
            return ""
        case py.Call(
            func=py.Name(id=word) | py.Attribute(attr=word, value=py.Name()),
            args=[py.Name(), *rest],
            keywords=[],
        ) if word in _HEAPS and len(rest) == (word in _TAKES_ITEM):
            return word
    return ""


def gives_item(call: py.expr) -> bool:
    """Return whether a call is one of `heapq` that has a result."""
    return heap_function(call) in _GIVES_ITEM


def heap_statements(call: py.Call, item: str | None, new_name: Callable[[str], str]) -> Iterator[py.stmt]:
    """Yield the statements that a call of `heapq` stands for; ``item``: the name of its result."""
    heap, *new = map(py.unparse, call.args)
    names = {part: new_name(f"{part}_of_{heap}") for part in ("at", "child", "top", "moved")}
    names["item"] = item or new_name(f"_item_of_{heap}")
    text = _HEAPS[heap_function(call)]
    yield from py.parse(
        text.format(heap=heap, new=new[0] if new else "", function=py.unparse(call.func), **names)
    ).body
