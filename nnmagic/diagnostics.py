"""Represent located errors: source text, spans, diagnostics; and draw them under source lines.

Every part of the package may import this file; it imports the limits only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import ClassVar

from nnmagic.limits import MAX_ERRORS

#: The terminal cells of a line's number and text together, and how many are shown before the carets. The last
#: is for sentences and for Python's errors, which a notebook breaks at its width: JupyterLab's may be 60.
_ROOM, _BEFORE, _ROOM_OF_MESSAGES = 77, 30, 55
#: Where Python ends a line; ``str.splitlines`` would also end it at a form feed or U+2028.
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Source:
    """A piece of source text, as the user wrote it.

    ``first_line`` is the number of the text's first line: 2 for the body of a notebook cell, because line 1
    is the magic line. ``indent`` is the number of columns removed from the front of every line, so that a
    nested function starts at the left margin; spans count them. ``names`` are those of the nodes of a model,
    by the numbers of their lines, where the text is a listing of it.
    """

    filename: str
    text: str
    first_line: int = 1
    indent: int = 0
    names: Mapping[int, str] = field(default_factory=dict, compare=False, repr=False)
    _lines: list[str] = field(default_factory=list, compare=False, repr=False)

    def line(self, number: int) -> str | None:
        """Return line ``number`` as the user wrote it, without its line end; None if it does not exist."""
        if not self._lines:
            self._lines.extend(" " * self.indent + line for line in _LINE_END.split(self.text))
        index = number - self.first_line
        return self._lines[index] if 0 <= index < len(self._lines) else None

    def holds(self, filename: str, number: int) -> bool:
        """Return whether a line of a file is one of this text."""
        return filename == self.filename and self.line(number) is not None


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source: lines and columns are 1-based and counted in characters, the end is exclusive."""

    filename: str
    line: int
    column: int
    end_line: int
    end_column: int
    source: Source | None = field(default=None, compare=False, repr=False)

    def to(self, other: Span) -> Span:
        """Return the span that covers both, in whichever order they come."""
        line, column = min((self.line, self.column), (other.line, other.column))
        end_line, end_column = max((self.end_line, self.end_column), (other.end_line, other.end_column))
        return replace(self, line=line, column=column, end_line=end_line, end_column=end_column)

    def __str__(self) -> str:
        return f"{_display_name(self.filename)}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Note:
    """A second span that an error refers to, such as the other operand of an addition."""

    message: str
    span: Span


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error: what is wrong, where, and, if known, how to fix it.

    ``severity``: ``"error"``, ``"warning"`` for what does not stop a cell, or ``"note"`` for what is good to
    know, which is one line.
    """

    message: str
    span: Span | None = None
    hint: str | None = None
    notes: tuple[Note, ...] = ()
    severity: str = "error"

    def render(self, *, color: bool = False) -> str:
        """Return the error as text: message, location, the source lines with carets, notes, hint."""
        paint = _painter(color)
        if self.severity == "note":
            place = f"{_display_name(self.span.filename)}:{self.span.line}: " if self.span else ""
            return f"{paint('note', 'note: ')}{place}{self.message}; {self.hint}"
        out = [
            paint(self.severity, f"{self.severity}: ")
            + _paint_lines(self.message, self.severity, color, "bold")
        ]
        together = [note for note in self.notes if _is_in_snippet(note.span, self.span)]
        if together and self.span is not None:
            out += _render_snippet(self.span, together, paint, self.severity)
        elif self.span is not None:
            out += _render_location(self.span, paint, self.severity)
        for note in self.notes:
            if note not in together:
                out.append(paint("note", "note: ") + note.message)
                out += _render_location(note.span, paint, "note")
        if self.hint is not None:
            out.append(paint("help", "help: ") + _paint_lines(self.hint, "help", color))
        return "\n".join(out)


class CompileError(Exception):
    """Source that cannot be compiled. ``diagnostics`` holds every error found, in source order.

    In a notebook only the diagnostics are shown, without internal frames.
    """

    kind: ClassVar[str] = "compile error"

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(sorted(diagnostics, key=_position))
        if not self.diagnostics:
            raise ValueError(f"{type(self).__name__} needs at least one diagnostic")
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return self.render()

    def render(self, *, color: bool = False) -> str:
        """Return all errors as text, one after the other."""
        return "\n\n".join(diagnostic.render(color=color) for diagnostic in self.diagnostics)

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows instead of a Python traceback."""
        name, count = type(self).__name__, _count(self.diagnostics)
        return [*self.render(color=True).split("\n"), f"{name}: {_paint_lines(count, name, color=True)}"]


class TinyNNError(CompileError):
    """An error in a TinyNN function or cell."""

    kind = "TinyNN error"


class RelayError(CompileError):
    """An error in a Relay module or its text."""

    kind = "Relay error"


class InternalError(CompileError):
    """A fault of nnmagic's own, at the place of the program where it showed; Python's error is its cause."""

    kind = "internal error"


def internal_error(what: str, error: Exception, span: Span | None = None) -> InternalError:
    """Return the error to raise from one that Python raised in nnmagic's own code."""
    message = f"internal error of nnmagic: {what}: {type(error).__name__}"
    hint = "please report it, with this cell and the traceback that NNMAGIC_TB=1 shows"
    return InternalError([Diagnostic(message, span, hint)])


class TinyNNWarning(UserWarning):
    """A TinyNN source that compiles, but is likely not what the author meant."""


class Diagnostics:
    """A collector of errors, so that all of them are reported at once."""

    def __init__(self) -> None:
        self.errors: list[Diagnostic] = []
        self._seen: set[tuple[str, Span | None]] = set()

    def error(
        self, message: str, span: Span | None, *, hint: str | None = None, notes: Sequence[Note] = ()
    ) -> None:
        """Record an error; the same message at the same span is kept once."""
        self.add(Diagnostic(message, span, hint, tuple(notes)))

    def add(self, diagnostic: Diagnostic) -> None:
        """Record a diagnostic, as ``error`` does."""
        key = (diagnostic.message, diagnostic.span)
        if key not in self._seen:
            self._seen.add(key)
            self.errors.append(diagnostic)

    def raise_if_any(self, kind: type[CompileError]) -> None:
        """Raise ``kind`` with every recorded error, if there is one; of very many the first ones."""
        if len(self.errors) > MAX_ERRORS:
            errors = sorted(self.errors, key=_position)
            more = len(errors) - MAX_ERRORS
            rest = Diagnostic(f"{more} more errors from here on are left out", errors[MAX_ERRORS].span)
            raise kind([*errors[:MAX_ERRORS], rest])
        if self.errors:
            raise kind(self.errors)


def append_location(message: str, span: Span | None) -> str:
    """Return a message followed by its location, for an error that is raised at run time."""
    # A line of a listing of torch's ends with the place in the module, which is what one looks for.
    room = _ROOM if span and span.filename.startswith("<torch ") else _ROOM_OF_MESSAGES
    place = _render_location(span, _painter(color=False), "error", room) if span else []
    return "\n".join([message, *place])


def _display_name(filename: str) -> str:
    """Return a file's name; of a notebook cell as IPython's own tracebacks have it: ``Cell In[3]``."""
    ipython = sys.modules.get("IPython")  # imported already wherever cells run
    shell = ipython and ipython.get_ipython()
    format_code_name = getattr(shell and shell.compile, "format_code_name", None)  # which IPython 7 lacks
    cell = format_code_name and format_code_name(filename)
    return " ".join(cell) if cell else filename


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like ``name``, for a hint; None if none does.

    A very long name is not looked up, nor are names beyond the first 1000: a hint is not worth the time.
    """
    import difflib

    matches = difflib.get_close_matches(name, islice(known, 1000), n=1) if len(name) <= 60 else []
    return matches[0] if matches else None


def kind_of(value: object) -> str:
    """Describe the type of a value for a message: ``an int``, ``a list``, ``None``."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"


def _position(diagnostic: Diagnostic) -> tuple[int, int]:
    return (diagnostic.span.line, diagnostic.span.column) if diagnostic.span else (0, 0)


def _count(diagnostics: Sequence[Diagnostic]) -> str:
    first = diagnostics[0].message
    others = len(diagnostics) - 1
    return first if not others else f"{first} (and {others} more error{'s' if others > 1 else ''})"


#: Red and green are not bold: Jupyter makes bold ones darker, which dark themes put on dark red.
_COLORS = {"error": "31", "warning": "1;33", "note": "1;36", "help": "32", "gutter": "34", "bold": "1"}

Painter = Callable[[str, str], str]


def _painter(color: bool) -> Painter:
    if not color:
        return lambda _style, text: text
    return lambda style, text: f"\033[{_COLORS[style]}m{text}\033[0m"


def _paint_lines(text: str, before: str, color: bool, style: str = "") -> str:
    """Return a sentence in colour as lines that fit beside a snippet; a notebook would break inside words."""
    if not color:
        return text
    import textwrap

    room = _ROOM_OF_MESSAGES - len(before)
    wrap = textwrap.TextWrapper(room, break_long_words=False, break_on_hyphens=False).wrap
    lines = [part for line in text.split("\n") for part in wrap(line) or [line]]
    indent = "\n" + " " * (len(before) + 2)
    return indent.join(_painter(color)(style, line) if style else line for line in lines)


def _is_in_snippet(note: Span, span: Span | None) -> bool:
    """Return whether a note's line can be shown with the line of an error: both are of one source."""
    return (
        span is not None
        and note.filename == span.filename
        and all(place.end_line == place.line and place.source is not None for place in (note, span))
        and all(
            place.source is not None and place.source.line(place.line) is not None for place in (note, span)
        )
    )


def _render_snippet(span: Span, notes: Sequence[Note], paint: Painter, style: str) -> list[str]:
    """Return the lines of an error and its notes, in the order of the source, with labelled carets."""
    labelled = [(span, "", style), *((note.span, note.message, "note") for note in notes)]
    labelled.sort(key=lambda each: (each[0].line, each[0].column))
    width = len(str(labelled[-1][0].line))
    bar = paint("gutter", " " * width + " |")
    out = [paint("gutter", " " * width + "--> ") + str(span), bar]
    before, shown, marked = labelled[0][0].line, "", ""
    for place, label, kind in labelled:
        text = place.source.line(place.line) if place.source else None
        assert text is not None
        visible, start, end = _window(text, place.column, place.end_column, _ROOM - width)
        if place.line - before > 1:
            out.append(paint("gutter", " " * width + " ..."))
        if (place.line, visible) != (before, shown):
            out.append(f"{paint('gutter', f'{place.line:>{width}} |')} {visible}")
            marked = ""
        before, shown = place.line, visible
        lead, carets = _carets(visible, start, end)
        is_new, marked = lead + carets != marked, lead + carets
        if is_new:
            out.append(f"{bar} {lead}{paint(kind, carets)}")
        if label and is_new and len(lead) + len(carets) + len(label) < _ROOM - width:
            out[-1] += f" {paint(kind, label)}"
        elif label:
            out.append(f"{bar} {paint(kind, label)}")
    return out


def _carets(visible: str, start: int, end: int) -> tuple[str, str]:
    """Return what stands before carets below a line, and the carets."""
    # Tabs and wide characters before the caret keep their own width when copied as they are.
    lead = "".join("\t" if ch == "\t" else " " * _cells(ch) for ch in visible[: start - 1])
    return lead, "^" * max(1, sum(_cells(ch) for ch in visible[start - 1 : end - 1]))


def _render_location(span: Span, paint: Painter, style: str, room: int = _ROOM) -> list[str]:
    """Return the location, then the source line with carets; of several lines the first and the last."""
    width = len(str(span.end_line))
    bar = paint("gutter", " " * width + " |")
    out = [paint("gutter", " " * width + "--> ") + str(span)]
    lines = [span.line] if span.end_line <= span.line else [span.line, span.end_line]
    texts = [(number, span.source.line(number) if span.source else None) for number in lines]
    if any(text is None for _, text in texts):
        return out
    out.append(bar)
    for number, text in texts:
        assert text is not None
        start = span.column if number == span.line else len(text) - len(text.lstrip()) + 1
        end = span.end_column if number == span.end_line else len(text) + 1
        visible, start, end = _window(text, start, end, room - width, at_end=number != span.line)
        out.append(f"{paint('gutter', f'{number:>{width}} |')} {visible}")
        lead, carets = _carets(visible, start, end)
        out.append(f"{bar} {lead}{paint(style, carets)}")
        if number != lines[-1] and lines[-1] - number > 1:
            out.append(paint("gutter", " " * width + " ..."))
    return out


def _window(text: str, start: int, end: int, room: int, *, at_end: bool = False) -> tuple[str, int, int]:
    """Return the part of a long line that fits into ``room`` cells, and the columns of the carets in it.

    ``at_end``: keep the end of the carets in sight. Text that is left out is shown as ``…``.
    """
    if len(text) <= room // 2 or sum(map(_cells, text)) <= room:
        return text, start, end
    focus = min((end if at_end else start) - 1, len(text))
    first = _reach(text, focus, -1, _BEFORE)
    last = _reach(text, focus, 1, room - sum(map(_cells, text[first:focus])))
    if last == len(text):
        first = _reach(text, last, -1, room)
    visible = text[first:last]
    if last < len(text):
        visible = visible[:-1] + "…"
    if first:
        visible = "…" + visible[1:]
    return visible, max(start - first, 1), min(end, last + 1) - first


def _reach(text: str, index: int, step: int, cells: int) -> int:
    """Return the index that so many terminal cells lead to, from an index in a text."""
    while 0 <= (next_index := index + min(step, 0)) < len(text):
        cells -= _cells(text[next_index])
        if cells < 0:
            break
        index += step
    return index


def _cells(char: str) -> int:
    """Return the number of terminal cells that a character takes."""
    import unicodedata

    if unicodedata.category(char) in ("Mn", "Me", "Cf"):  # marks, joiners
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def last_line(error: BaseException) -> str:
    """Return the last line of an exception's text: in TVM's, the lines before say where in TVM it arose."""
    return str(error).strip().rsplit("\n", maxsplit=1)[-1].strip()
