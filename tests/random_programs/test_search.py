"""A search sees crashes, counts faults, and makes programs small."""

from __future__ import annotations

import io

import pytest

from tests.random_programs import judges as judging
from tests.random_programs.judges import Fault, Verdict, judge
from tests.random_programs.program import Program, Rules
from tests.random_programs.search import Job, Report, search, shrink_named
from tests.random_programs.shrink import shrink, smaller_sources

SOURCE = """
def f(x: f64, n: i64):
    y = x + 1.0
    for i in range(n):
        if i > 1:
            y = y * 2.0
        else:
            y = abs(y) + 3.0
    z = y - x
    return z, y
"""


def test_a_program_is_cut_down_to_its_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def dislike(program: Program, verdict: Verdict) -> None:
        if "abs" in program.source:
            verdict.faults.append(Fault("abs", "", program))

    monkeypatch.setitem(judging.JUDGES, "dislike", dislike)
    program = Program("language", 0, SOURCE, ((1.0, 3), (2.0, 0)), Rules())
    (fault,) = judge(program, ["dislike"]).faults
    small = shrink(fault, ["dislike"]).program
    assert len(small.calls) == 1
    assert len(small.source.splitlines()) <= 3
    assert "abs" in small.source


def test_smaller_sources_are_valid_and_others() -> None:
    sources = list(smaller_sources(SOURCE))
    assert len(set(sources)) > 10
    for source in sources:
        compile(source, "<cell>", "exec")


def test_what_a_judge_raises_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_program: Program, _verdict: Verdict) -> None:
        raise KeyError("v12")

    monkeypatch.setitem(judging.JUDGES, "fail", fail)
    (fault,) = judge(Program("language", 0, SOURCE, ()), ["fail"]).faults
    assert fault.kind == "KeyError: 'V'"


def test_a_record_is_the_program() -> None:
    from tests.random_programs.families import family_of

    program = family_of("language").write(4)
    again = Program.of_record(program.record(), program.rules)
    assert again.source == program.source
    assert repr(again.calls) == repr(program.calls)


def test_faults_are_counted_once_each() -> None:
    report, out = Report(), io.StringIO()
    for name in ("language:1", "language:2"):
        report.add({"name": name, "faults": [["the shape", f"of {name}"]], "counts": {"equal: calls": 2}})
    assert report.write(out) == 1
    assert out.getvalue().startswith("## the shape (2)\nlanguage:1\nof language:1\n")
    assert "      4 equal: calls\n## 2 programs; 1 different faults\n" in out.getvalue()


@pytest.mark.full
def test_programs_are_judged_in_processes_of_their_own() -> None:
    report = search(Job(("sized_nests", "language"), 5, ("numpy",)), 4)
    assert report.programs == 8
    assert not report.shown


def test_a_right_program_has_nothing_to_shrink() -> None:
    assert shrink_named("language:3", ["numpy"]) == []
