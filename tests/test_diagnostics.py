"""How an error is drawn under its source lines: the carets stand below what is meant, in any terminal."""

from __future__ import annotations

import pickle
import re

import pytest
from wcwidth import wcswidth

from nnmagic.diagnostics import Diagnostic, Diagnostics, Note, RelayError, Source, Span, TinyNNError


def span(text: str, word: str, **options: int) -> Span:
    """The first span of a word in a source."""
    source = Source("cell", text, **options)
    before = text[: text.index(word)]
    line, column = before.count("\n"), len(before) - (before.rfind("\n") + 1)
    first, left = source.first_line + line, source.indent + column + 1
    return Span("cell", first, left, first, left + len(word), source)


@pytest.mark.parametrize(
    "line",
    [
        "return x + bad * y",
        "\treturn\t x + bad",
        "变量 = bad + 1",
        "é = bad",  # one character
        "e\u0301 = bad",  # the same as two
        'f("👍\ufe0f") + bad',  # a variation selector
        'f("a\u200bb") + bad',  # a space of no width
        "bad",
    ],
)
def test_carets_stand_below_the_word(line: str) -> None:
    source_line, carets = Diagnostic("no", span(f"first\n{line}\nlast", "bad")).render().split("\n")[-2:]
    assert source_line == f"2 | {line}"
    lead = carets.removesuffix("^^^")
    assert not lead.strip("\t |"), "carets alone"
    # Tabs take the same columns in both lines; everything else as many cells as wcwidth counts.
    above, below = source_line[: source_line.index("bad")], lead
    assert above.count("\t") == below.count("\t")
    for one, other in zip(above.split("\t"), below.split("\t"), strict=True):
        assert wcswidth(one) == wcswidth(other)


def test_wide_characters_have_wide_carets() -> None:
    assert Diagnostic("no", span("x = 变量", "变量")).render().split("\n")[-1] == "  |     ^^^^"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_python_ends_them(end: str) -> None:
    source = Source("cell", end.join(["a\x0cb\u2028c", "second", ""]), first_line=2)
    assert [source.line(number) for number in range(1, 6)] == [None, "a\x0cb\u2028c", "second", "", None]


def test_a_nested_function_is_shown_where_it_stands() -> None:
    shown = Diagnostic("no", span("def f():\n    bad", "bad", first_line=8, indent=4)).render()
    assert shown == "error: no\n --> cell:9:9\n  |\n9 |         bad\n  |         ^^^"


def test_a_long_span_shows_its_first_and_last_line() -> None:
    source = Source("cell", "x = f(a,\n  b,\n  c)\n", first_line=9)
    shown = Diagnostic("no", Span("cell", 9, 5, 11, 5, source), hint="do").render()
    assert shown == (
        "error: no\n  --> cell:9:5\n   |\n 9 | x = f(a,\n   |     ^^^^\n   ...\n11 |   c)\n   |   ^^\n"
        "help: do"
    )


def test_errors_are_in_source_order_each_once() -> None:
    text = "one two three"
    diagnostics = Diagnostics()
    for word, other in (("three", "two"), ("one", "two"), ("three", "one")):
        diagnostics.error(f"no {word}", span(text, word), notes=[Note("see", span(text, other))])
    with pytest.raises(TinyNNError) as caught:
        diagnostics.raise_if_any(TinyNNError)
    assert [error.message for error in caught.value.diagnostics] == ["no one", "no three"]
    assert str(caught.value).count("1 | one two three\n  |     ^^^ see\n  |         ^^^^^") == 1
    lines = caught.value._render_traceback_()
    assert lines[-1] == "TinyNNError: no one (and 1 more error)"
    assert any("\x1b[" in line for line in lines)


def test_errors_travel_between_processes() -> None:
    error = RelayError([Diagnostic("no", span("a bad", "bad"), "help")])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is RelayError
    assert again.diagnostics == error.diagnostics
    assert str(again) == str(error)


@pytest.mark.parametrize("left", ["", "x = ", "long_name + " * 30, "数 + " * 60])
@pytest.mark.parametrize("right", ["", " + y", " + other_name" * 40])
def test_a_long_line_is_shown_in_a_window_around_the_word(left: str, right: str) -> None:
    line = f"{left}bad{right}"
    shown, carets = Diagnostic("no", span(line, "bad")).render().split("\n")[-2:]
    assert wcswidth(shown) <= 80
    at = shown.index("bad")
    assert carets.endswith("^^^")
    assert wcswidth(carets) - 3 == wcswidth(shown[:at])
    text = shown.removeprefix("1 | ")
    assert text.strip("…") in line
    assert text.startswith("…") == (not line.startswith(text[:4]))
    assert text.endswith("…") == (not line.endswith(text[-4:]))
    if wcswidth(line) <= 76:
        assert text == line


def test_notes_are_labels_in_one_snippet() -> None:
    lines = ["if c:", "    z = x", "else:", "    z = y", "", "", f"return {'a + ' * 30}z"]
    source = Source("cell", "\n".join(lines), first_line=2)

    def at(line: int, column: int) -> Span:
        return Span("cell", line, column, line, column + 1, source)

    notes = (Note("a label that " + "is long " * 9, at(5, 5)), Note("here it is", at(3, 5)))
    elsewhere = Note("and here", Span("other", 1, 1, 1, 2, Source("other", "w")))
    shown = Diagnostic("no", at(8, len(lines[-1])), notes=(*notes, elsewhere)).render().split("\n")
    assert shown[:3] == ["error: no", " --> cell:8:128", "  |"]
    assert shown[3:7] == ["3 |     z = x", "  |     ^ here it is", "  ...", "5 |     z = y"]
    assert shown[7:10] == ["  |     ^", f"  | {notes[0].message}", "  ..."]
    assert shown[10].startswith("8 | …")
    assert shown[10].endswith("a + z")
    assert shown[11] == f"  |{'^':>{len(shown[10]) - 3}}"
    assert shown[12:] == ["note: and here", " --> other:1:1", "  |", "1 | w", "  | ^"]
    assert max(map(len, [*shown[3:8], *shown[9:]])) <= 80


def test_a_note_of_the_same_place_has_no_carets_of_its_own() -> None:
    span = Span("cell", 1, 8, 1, 12, Source("cell", "return f(x)"))
    note = Note("f is a function of " + "two arguments " * 5, span)
    shown = Diagnostic("no", span, notes=(note, Note("here", span))).render().split("\n")
    assert shown[2:] == ["  |", "1 | return f(x)", "  |        ^^^^", f"  | {note.message}", "  | here"]


def test_the_ends_of_long_lines_of_several() -> None:
    first, last = f"f({'a, ' * 100}", f"{'b, ' * 100}c)"
    source = Source("cell", f"{first}\n{last}")
    text = Diagnostic("no", Span("cell", 1, 1, 2, len(last) + 1, source)).render().split("\n")
    assert text[3].startswith("1 | f(a, a")
    assert text[3].endswith("…")
    assert text[5].startswith("2 | …")
    assert text[5].endswith("b, c)")
    assert text[6].endswith("^" * 75)


def test_long_sentences_are_broken_at_blanks_in_colour() -> None:
    message, hint = f"no {'word ' * 30}end", "write\n" + "x + " * 30 + "x"
    lines = Diagnostic(message, None, hint).render(color=True).split("\n")
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert max(map(len, plain)) <= 80
    assert all(line.startswith((" ", "error: no", "help: write")) for line in plain)
    assert " ".join(" ".join(plain).split()) == " ".join(f"error: {message} help: {hint}".split())
    assert Diagnostic(message, None, hint).render() == f"error: {message}\nhelp: {hint}"
