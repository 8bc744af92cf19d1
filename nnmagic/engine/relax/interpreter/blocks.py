"""Write the functions of a program as Python source: blocks that the interpreter runs one after the other.

A block ends where a function is called, and where branches meet again of which one calls a function. What
follows is a block of its own, which the return stack holds together with the values that are live there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnmagic.engine.relax.interpreter import instructions as ins
from nnmagic.engine.relax.interpreter.steps import construct, slots, tuple_source

#: Calls and branches inside one another that are still to be returned to: an entry takes about 0.1 kB.
MAX_DEPTH = 1_000_000

#: How deep branches of one block are nested; Python allows 100 levels of indentation.
_MAX_NESTING = 20

#: The condition of an arm that takes every value.
_ALWAYS = "True"


def set_start(code: ins.FunctionCode) -> None:
    """Set the first block of a function, which is written at the first call."""

    def start(_kernels: object, _stack: object, frame: ins.Frame) -> tuple[ins.Block, ins.Frame]:
        code.start = _Writer(code).write()
        return code.start, frame

    code.start = start


def constructor_function(name: str, fields: int) -> ins.Closure:
    """Return the function value of a constructor."""
    params = tuple(range(fields))
    code = ins.FunctionCode(
        name, params, (), fields + 1, ins.Code((construct(fields, name, params),), fields)
    )
    set_start(code)
    return ins.Closure(code, ())


class _Writer:
    """Writes the blocks of one function."""

    def __init__(self, function: ins.FunctionCode) -> None:
        self.function = function
        self.names: dict[str, Any] = {
            "Closure": ins.Closure,
            "RefCell": ins.RefCell,
            "failure": _failure,
            "too_deep": _too_deep,
        }
        self.lines: list[str] = []
        self.waiting: list[tuple[str, ins.Code, int]] = []
        self.blocks = 0
        self.live: dict[ins.Code, dict[int, list[int]]] = {}

    def write(self) -> ins.Block:
        """Return the first block."""
        self._begin("start", tuple_source(slots([*self.function.params, *self.function.captures])))
        self._finish(self.function.body, 0, 1)
        while self.waiting:
            name, code, index = self.waiting.pop()
            live = slots(self._live_after(code, index - 1))
            frame = tuple_source(live)
            if index:
                target = code.instructions[index - 1].writes[0]
                frame = f"v{target}, {frame}"
            self._begin(name, frame)
            self._finish(code, index, 1)
        exec("\n".join(self.lines), self.names)  # noqa: S102 - our own text
        start: ins.Block = self.names["start"]
        return start

    def _begin(self, name: str, frame: str) -> None:
        self.lines += [f"def {name}(kernels, stack, frame):", f"    {frame} = frame"]

    def _line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def _block(self, code: ins.Code, index: int) -> str:
        """Return the name of a new block that begins at an instruction."""
        self.blocks += 1
        name = f"block{self.blocks}"
        self.waiting.append((name, code, index))
        return name

    def _live_after(self, code: ins.Code, index: int) -> list[int]:
        """Return the slots that are live after an instruction of a piece of code, without those it writes."""
        if index < 0:
            return sorted(code.free)
        if code not in self.live:
            last = len(code.instructions) - 1
            self.live[code] = {
                last - count: sorted(live.difference(code.instructions[last - count].writes))
                for count, live in enumerate(ins.live_before(code))
                if count <= last and not isinstance(code.instructions[last - count], ins.Step)
            }
        return self.live[code][index]

    def _finish(self, code: ins.Code, index: int, indent: int) -> None:
        """Write the rest of a block: it ends with the call of a function or the return from one."""
        while index < len(code.instructions):
            instruction = code.instructions[index]
            index += 1
            if isinstance(instruction, ins.Step) or _is_inline(instruction):
                self._inline_instruction(instruction, indent)
                continue
            is_tail = index == len(code.instructions) and code.result == instruction.target
            if not is_tail:
                live = tuple_source(slots(self._live_after(code, index - 1)))
                self._line(indent, f"if len(stack) > {MAX_DEPTH}:")
                self._line(indent + 1, "raise too_deep()")
                self._line(indent, f"stack.append(({self._block(code, index)}, {live}))")
            if isinstance(instruction, ins.Apply):
                self._call(instruction, indent)
                return
            code, index = self._choose(instruction, indent), 0
        self._line(indent, "block, frame = stack.pop()")
        self._line(indent, f"return block, (v{code.result}, frame)")

    def _call(self, instruction: ins.Apply, indent: int) -> None:
        args = "".join(f"{arg}, " for arg in slots(instruction.args))
        if isinstance(instruction.callee, ins.FunctionCode):
            name = f"f{instruction.target}"
            self.names[name] = instruction.callee
            self._line(indent, f"return {name}.start, ({args})")
        else:
            function = f"v{instruction.callee}"
            self._line(indent, f"return {function}.code.start, ({args}*{function}.captured, )")

    def _choose(self, instruction: ins.Branch | ins.Select, indent: int) -> ins.Code:
        """Write the choice of the code to end with, and each but the last, which is returned."""
        arms = self._arms(instruction)
        for condition, binds, code in arms[:-1]:
            self._line(indent, f"if {condition}:")
            self._bind(binds, indent + 1)
            if indent < _MAX_NESTING:
                self._finish(code, 0, indent + 1)
            else:
                frame = tuple_source(slots(self._live_after(code, -1)))
                self._line(indent + 1, f"return {self._block(code, 0)}, {frame}")
        condition, binds, code = arms[-1]
        if condition != _ALWAYS:
            self._line(indent, f"if not ({condition}):")
            self._fail(instruction, indent + 1)
        self._bind(binds, indent)
        return code

    def _inline_instruction(self, instruction: ins.Instruction, indent: int) -> None:
        """Write a step, or branches that call nothing and meet again in the same block."""
        if isinstance(instruction, ins.Step):
            if instruction.constant is not None:
                self.names[f"c{instruction.writes[0]}"] = instruction.constant
            for line in instruction.source:
                self._line(indent, line)
            return
        assert not isinstance(instruction, ins.Apply)
        keyword, condition = "if", ""
        for condition, binds, code in self._arms(instruction):
            self._line(indent, f"{keyword} {condition}:")
            self._bind(binds, indent + 1)
            for inner in code.instructions:
                self._inline_instruction(inner, indent + 1)
            self._line(indent + 1, f"v{instruction.target} = v{code.result}")
            keyword = "elif"
        if not condition:
            self._fail(instruction, indent)
        elif condition != _ALWAYS:
            self._line(indent, "else:")
            self._fail(instruction, indent + 1)

    def _arms(
        self, instruction: ins.Branch | ins.Select
    ) -> list[tuple[str, Sequence[tuple[int, str]], ins.Code]]:
        """Return the arms that can be reached: the condition, what is bound, and the code."""
        if isinstance(instruction, ins.Branch):
            return [(f"v{instruction.cond}", (), instruction.then), (_ALWAYS, (), instruction.other)]
        arms: list[tuple[str, Sequence[tuple[int, str]], ins.Code]] = []
        for arm in instruction.arms:
            arms.append((" and ".join(arm.conditions) or _ALWAYS, arm.binds, arm.code))
            if not arm.conditions:
                break
        return arms

    def _bind(self, binds: Sequence[tuple[int, str]], indent: int) -> None:
        for slot, source in binds:
            self._line(indent, f"v{slot} = {source}")

    def _fail(self, instruction: ins.Branch | ins.Select, indent: int) -> None:
        name = f"s{instruction.target}"
        self.names[name] = instruction
        data = f"v{instruction.data}" if isinstance(instruction, ins.Select) else None
        self._line(indent, f"raise failure({name}, {data})")


def _is_inline(instruction: ins.Instruction) -> bool:
    """Return whether a block holds the branches of an instruction."""
    if not isinstance(instruction, ins.Branch | ins.Select):
        return False
    return not any(code.calls or code.nesting >= _MAX_NESTING for code in instruction.codes)


def _too_deep() -> Exception:
    return RecursionError(f"the recursion is deeper than {MAX_DEPTH} calls and branches")


def _failure(instruction: ins.Select, value: Any) -> Exception:
    """Return the exception for a value that no arm takes."""
    if instruction.assertion is not None:
        return instruction.assertion.error(instruction.span)
    what = value[0] if isinstance(value, list) else "this value"
    where = "" if instruction.span is None else f" at {instruction.span}"
    return RuntimeError(f"no arm of the match{where} takes {what}")
