"""Mark choices that no processor predicts, so that LLVM makes conditional moves of them, not branches.

Where a round of a loop waits for a choice of the round before, LLVM takes a branch for faster: the processor
goes on with what it predicts. That is right for a running maximum, which few rounds change, and for the
counters of loops. The way down a heap depends on data, and so do the rows of an edit distance: each wrong
prediction costs twenty instructions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nnmagic.relay.structure.callgraph import components

_NAME = re.compile(r"%(?:[\w.$-]+|\"[^\"]*\")")

_LABEL = re.compile(r"([\w.$-]+|\"[^\"]*\"):")

_VALUE = r"(?:%(?:[\w.$-]+|\"[^\"]*\")|[\w-]+)"

#: What can be a conditional move: a choice, and the larger or smaller one of two integers.
_SELECT = re.compile(rf"select i1 {_VALUE}, i(?:16|32|64) {_VALUE}, i\d+ {_VALUE}")

_EXTREME = re.compile(
    rf"(?:tail )?call i(32|64) @llvm\.([su](?:min|max))\.i\d+\(i\d+ ({_VALUE}), i\d+ ({_VALUE})\)"
)

#: What its text has: a search that begins with fixed letters takes a hundredth of the time.
_IN_AN_EXTREME = re.compile(r"@llvm\.[su](?:min|max)\.i(?:32|64)\(")

#: How an extreme compares its operands.
_COMPARISONS = {"smax": "sgt", "smin": "slt", "umax": "ugt", "umin": "ult"}

#: What makes values that the rounds of a loop do not repeat.
_UNKNOWN = re.compile(r"load |xor |call |tail call ")

#: What only hands a value on.
_HANDS_ON = re.compile(r"phi |select |freeze |.*@llvm\.[su](?:min|max)")


def mark_unpredictable(text: str) -> str | None:
    """Return LLVM's text with marks; None if there is nothing to mark."""
    functions = re.split(r"(?m)^(?=define )", text)
    changed = [_mark(function) for function in functions]
    if not any(changed):
        return None
    marked = "".join(new or old for new, old in zip(changed, functions, strict=True))
    number = max(map(int, re.findall(r"(?m)^!(\d+) =", marked)), default=-1) + 1
    # LLVM prints what TVM makes, and does not read it: what a module has for itself alone is not exported.
    marked = re.sub(r"(?m)^((?:define|@\S+ =) (?:private|internal)) dllexport", r"\1", marked)
    return marked.replace("!unpredictable !_", f"!unpredictable !{number}") + f"!{number} = !{{}}\n"


def _mark(function: str) -> str | None:
    """Return a function with marks; None if it has nothing to mark."""
    if not function.startswith("define "):
        return None
    if not (_SELECT.search(function) or _IN_AN_EXTREME.search(function)):
        return None
    lines = function.split("\n")
    code, operands, looping = _read(lines)
    unpredictable = _unpredictable(code, operands, looping)
    if not unpredictable:
        return None
    for number, line in enumerate(lines):
        name, _, _ = line.strip().partition(" = ")
        if name not in unpredictable:
            continue
        if (extreme := _EXTREME.match(code[name])) is None:
            lines[number] = f"{line}, !unpredictable !_"
            continue
        bits, kind, a, b = extreme.groups()
        test = f'%"{name[1:].strip(chr(34))}.unpredictable"'
        lines[number] = (
            f"  {test} = icmp {_COMPARISONS[kind]} i{bits} {a}, {b}\n"
            f"  {name} = select i1 {test}, i{bits} {a}, i{bits} {b}, !unpredictable !_"
        )
    return "\n".join(lines)


def _read(lines: Sequence[str]) -> tuple[dict[str, str], dict[str, tuple[str, ...]], set[str]]:
    """Return the code of each value, from which others it is computed, and which are computed in loops."""
    code: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    block, block_of = "", dict[str, str]()
    ways: dict[str, list[str]] = {block: []}
    for line in lines:
        if line[:2] == "  ":
            if match := re.match(r"  (%\S+) = (.*)", line):
                name = match[1]
                code[name] = value = match[2].split(", !", 1)[0]
                block_of[name] = block
                parts = re.findall(r"\[ ([^,]+), %", value) if value.startswith("phi") else (value,)
                found[name] = [other for part in parts for other in _NAME.findall(part)]
            if "label %" in line:
                ways[block] += re.findall(r"label %([\w.$-]+|\"[^\"]*\")", line)
        elif match := _LABEL.match(line):
            block = match[1]
            ways[block] = []
    operands = {name: tuple(other for other in others if other in code) for name, others in found.items()}
    blocks = {block: tuple(to for to in goes if to in ways) for block, goes in ways.items()}
    looping = {block for group in _cycles(blocks) for block in group}
    return code, operands, {name for name in code if block_of[name] in looping}


def _cycles(graph: Mapping[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [group for group in components(graph) if len(group) > 1 or group[0] in graph[group[0]]]


def _unpredictable(
    code: Mapping[str, str], operands: Mapping[str, tuple[str, ...]], looping: set[str]
) -> set[str]:
    """Return the choices that a round waits for and that depend on data."""
    unknown: set[str] = set()
    found: set[str] = set()
    for group in components(operands):
        read = any(name in looping and _is_unknown(code[name]) for name in group)
        if read or any(other in unknown for name in group for other in operands[name]):
            unknown.update(group)
        if len(group) == 1 or all(_HANDS_ON.match(code[name]) for name in group):
            continue
        found.update(name for name in group if _SELECT.match(code[name]) or _EXTREME.match(code[name]))
    return {name for name in found if not unknown.isdisjoint(_test(code[name], operands[name]))}


def _is_unknown(code: str) -> bool:
    return bool(_UNKNOWN.match(code)) and not _EXTREME.match(code)


def _test(code: str, operands: Sequence[str]) -> Sequence[str]:
    """Return what a choice is made by: the first operand of ``select``, if it is no constant."""
    return operands if _EXTREME.match(code) else [name for name in operands if f"i1 {name}," in code]
