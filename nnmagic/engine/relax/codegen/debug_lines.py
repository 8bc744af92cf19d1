"""Write into machine code which lines of the source it computes, where a debugger or a profiler asks for it.

Statements of TIR have spans, which TVM passes on to LLVM as lines. It knows no file: the number of a line has
that of its file in its upper bits, until the text of LLVM gets both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tvm import ir, tirx

from nnmagic.diagnostics import Span
from nnmagic.engine.relax.lowering.origins import KernelOrigins, as_span
from nnmagic.engine.relax.runtime.debug_files import file_of
from nnmagic.engine.relax.runtime.native_entry import ENTRY
from nnmagic.engine.relax.tir.types import Stmt
from nnmagic.engine.relax.tir.visitors import rewrite
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import post_order

#: A line has so many bits, its file's number the others.
_LINE_BITS = 20

#: Of the function that is compiled, one at a time: its name, the files of its spans, the first line of each
#: kernel, and that of all under no name.
_owner = [""]
_paths: dict[Span, Path] = {}
_heads: dict[str, int] = {}

#: The files by their numbers, from 1 on.
_files = [Path("nnmagic")]

_SUBPROGRAM = re.compile(
    r'^!(\d+) = distinct !DISubprogram\(name: "([^"]*)", scope: !\d+, file: !(\d+),', re.MULTILINE
)
_FUNCTION = re.compile(r"^define .* !dbg !(\d+).* \{\n(?:.*\n)*?\}$", re.MULTILINE)
_INSTRUCTION = re.compile(r"^  (?:%\S+ = |store |(?:tail )?call |br |ret )(?!.*!dbg).*$", re.MULTILINE)
_LOCATION = re.compile(r"!DILocation\(line: (\d+),?(?: column: \d+,)? scope: !(\d+)")


def note_program(module: Module, entry: str, origins: KernelOrigins, folder: Path) -> None:
    """Begin a compilation: note its lines, and write sources that are no files into the folder."""
    _owner[:] = [entry]
    _heads.clear()
    _paths.clear()
    spans = {node.span: node.span for each in module.functions.values() for node in post_order(each)}
    known = {span: span.source for span in spans if span is not None and span.source is not None}
    files = {source: file_of(source, folder) for source in set(known.values())}
    _paths.update((span, files[source]) for span, source in known.items())
    head = origins.heads.get(entry)
    own = 0 if head is None else _number_of(head) >> _LINE_BITS
    for name, span in origins.heads.items():
        _heads[name] = 0 if span is None else _number_of(span)
    for name in origins.kernels:
        numbers = map(_number_of, origins.of(name, ()))
        _heads[name] = min(numbers, key=lambda number: (number >> _LINE_BITS != own, number), default=0)
    _heads[""] = _heads.get(entry, 0)


def with_lines(statements: Iterable[Stmt], span: ir.Span | None) -> list[Stmt]:
    """Return statements whose stores and branches are of the line of a span, but for those that have one."""
    if span is None:
        return list(statements)
    number = _number_of(as_span(span))
    made = ir.Span(span.source_name, number, number, span.column, span.column)

    def store(node: Any) -> Any:
        return node if node.span else tirx.BufferStore(node.buffer, node.value, node.indices, made)

    def branch(node: Any) -> Any:
        return node if node.span else tirx.IfThenElse(node.condition, node.then_case, node.else_case, made)

    changes = [(tirx.BufferStore, store), (tirx.IfThenElse, branch)]
    return [rewrite(statement, changes) for statement in statements]


def with_places(text: str) -> str:
    """Return LLVM's text of functions with the files and lines of their statements.

    What has no line of its own is of the first one of its function. The function that computes all gets the
    name of the cell's function.
    """
    owner = _owner[0]
    own_file = {match[1]: match[3] for match in _SUBPROGRAM.finditer(text)}
    first = {match[1]: _head_of(match[2]) for match in _SUBPROGRAM.finditer(text)}
    last = max(map(int, re.findall(r"^!(\d+) =", text, re.MULTILINE)), default=0)
    added: dict[str, int] = {}

    def node(content: str) -> str:
        return f"!{added.setdefault(content, last + 1 + len(added))}"

    def file(line: int) -> str:
        path = _path_of(line)
        return node(f'!DIFile(filename: "{_quote(path.name)}", directory: "{_quote(str(path.parent))}")')

    def subprogram(match: re.Match[str]) -> str:
        line = first[match[1]]
        name = owner if match[2].startswith(ENTRY) else match[2]
        head = f'!{match[1]} = distinct !DISubprogram(name: "{_quote(name)}", scope: {file(line)}, '
        return f"{head}file: {file(line)}, line: {_line_of(line)}, scopeLine: {_line_of(line)},"

    def location(match: re.Match[str]) -> str:
        at, scope = match[2], f"!{match[2]}"
        line = int(match[1]) or first.get(at, 0)
        if _path_of(line) != _path_of(first.get(at, 0)):
            scope = node(f"!DILexicalBlockFile(scope: {scope}, file: {file(line)}, discriminator: 0)")
        return f"!DILocation(line: {_line_of(line)}, scope: {scope}"

    def body(match: re.Match[str]) -> str:
        at = match[1]
        place = node(f"!DILocation(line: {_line_of(first.get(at, 0))}, scope: !{at})")
        return _INSTRUCTION.sub(rf"\g<0>, !dbg {place}", match[0])

    if not own_file:
        return text
    text = _FUNCTION.sub(body, _LOCATION.sub(location, _SUBPROGRAM.sub(subprogram, text)))
    of_unit = next(iter(own_file.values()))
    place = next(content for content in added if content.startswith("!DIFile"))
    text = re.sub(rf"(?m)^!{of_unit} = !DIFile\(.*\)$", lambda _: f"!{of_unit} = {place}", text)
    if not re.search(rf"@{re.escape(owner)}\b", text):  # as C's functions are
        text = text.replace(f"@{ENTRY}_compute_(", f'@"{_quote(owner)}"(')
    text = text.replace("\ndefine private dllexport ", "\ndefine internal ")  # which has a symbol
    return "\n".join([text, *(f"!{number} = {content}" for content, number in added.items()), ""])


def _head_of(symbol: str) -> int:
    """Return the first line of a function of TIR."""
    names = [name for name in _heads if name and re.search(rf"_{re.escape(name)}(?![a-z0-9])", symbol)]
    name = max(names, key=len, default="" if symbol.startswith(ENTRY) else None)
    return 0 if name is None else _heads[name]


def _number_of(span: Span) -> int:
    """Return the number of a line with that of its file; 0 stands for none."""
    return span.line | _file_number(_paths.get(span, Path(span.filename))) << _LINE_BITS


def _file_number(path: Path) -> int:
    if path not in _files:
        _files.append(path)
    return _files.index(path)


def _line_of(number: int) -> int:
    return number & ((1 << _LINE_BITS) - 1)


def _path_of(number: int) -> Path:
    at = number >> _LINE_BITS
    return _files[at if at < len(_files) else 0]


def _quote(text: str) -> str:
    """Return a text as LLVM writes it between quotes."""
    return "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02X}" for byte in text.encode()
    )
