"""Say how a compiled function runs, and what costs: ``f.why`` and ``%tinynn why``."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from nnmagic.diagnostics import Span
from nnmagic.engine import engine_error
from nnmagic.engine.executable import Remark, remarks_of
from nnmagic.functions.definition import Definition
from nnmagic.relay.structure.traverse import post_order
from nnmagic.rendering.output import Section
from nnmagic.rendering.source_lines import Places, position

#: How much of an expression is quoted.
_QUOTED = 32
#: What a row says at most beside that, for a table that fits an output of a notebook.
_WIDTH = 56


@dataclass(frozen=True, slots=True)
class Why:
    """How a function runs, part by part.

    Attributes:
        name: of the function.
        note: how it runs as a whole.
        remarks: its loops, kernels and arrays, in the order of the source, and what they cost.

    """

    name: str
    note: str
    remarks: tuple[Remark, ...]
    _rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return self.section().text

    __repr__ = __str__

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        from nnmagic.rendering.output import Output

        return Output((self.section(),)).bundle()

    def section(self) -> Section:
        """Return it as a table."""
        from nnmagic.rendering.output import plain, table

        note = f"{self.name}: {self.note}"
        if not self._rows:
            return plain("why", note)
        header = ("line", "of", "how it runs, and what costs", "what would help")
        text_rows = [
            (*place, textwrap.fill(text, _WIDTH), textwrap.fill(change, _QUOTED))
            for *place, text, change in self._rows
        ]
        return table("why", self._rows, header, note, code=1, text_rows=text_rows)


def why(definition: Definition) -> Why:
    """Return how a function runs. Raises EngineError for an engine that does not say it."""
    executable = definition.executable
    artifact = executable.artifact
    if definition.options.resolve_engine != "relax" or artifact is None:
        message = f"the engine {definition.options.resolve_engine} does not say how {definition.name} runs"
        raise engine_error(message, hint="the engine relax does: leave the engine and the target out")
    from nnmagic.engine.relax.artifact import AOT

    spans = {
        node.span: node.span
        for body in definition.relay.functions.values()
        for node in post_order(body)
        if node.span is not None and node.span.source is not None
    }
    places = Places(definition.source, definition.lines, spans)
    remarks = {
        (remark.text, remark.change, remark.span): remark
        for remark in remarks_of(executable)
        if remark.span is None or remark.span in spans
    }
    ordered = sorted(
        remarks.values(), key=lambda remark: position(remark.span) if remark.span else (1 << 31,) * 4
    )
    if artifact.kind == AOT:
        threads = "; threads share work where that pays" if artifact.facts["parallel"] else ""
        note = f"machine code alone{threads}"
    else:
        reason = artifact.facts["reason"]
        note = f"an interpreter runs its control flow, some microseconds for each kernel: {reason}"
    return Why(definition.name, note, tuple(ordered), tuple(_rows(ordered, spans, places)))


def _rows(remarks: Sequence[Remark], spans: dict[Span, Span], places: Places) -> list[tuple[str, ...]]:
    """Return the rows of the table: what is said of one expression stands below it."""
    rows: list[tuple[str, ...]] = []
    last: Span | None = None
    for remark in remarks:
        place = ("", "")
        if remark.span is not None and remark.span != last:
            span = spans[remark.span]
            place = (", ".join(places.numbers([span])), quote(span))
        last = remark.span
        rows.append((*place, remark.text, remark.change))
    return rows


def quote(span: Span) -> str:
    """Return the text of an expression, or the beginning of one that is long."""
    if span.source is None:
        return ""
    line = span.source.text.splitlines()[span.line - span.source.first_line]
    end = span.end_column - 1 if span.end_line == span.line else len(line)
    text = line[span.column - 1 : end].strip()
    return text if len(text) <= _QUOTED else f"{text[: _QUOTED - 1]}…"
