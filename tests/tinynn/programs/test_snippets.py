"""Snippets of cells, by topic: what they compute, judged by NumPy, and what they are refused with."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path

import pytest

from tests.tinynn.programs.snippets.cases import Case
from tests.tinynn.programs.snippets.runner import run

#: Topics whose language is not built yet; each is to leave this list.
PENDING_TOPICS: list[str] = []

_MACHINERY = {"__init__", "arguments", "cases", "runner"}
TOPICS = sorted(
    path.stem for path in (Path(__file__).parent / "snippets").glob("*.py") if path.stem not in _MACHINERY
)


def cases_of(topic: str) -> list[Case]:
    """The cases of a topic."""
    return list(importlib.import_module(f"tests.tinynn.programs.snippets.{topic}").CASES)


def _parameters() -> list[object]:
    skipped = pytest.mark.skip(reason="the language of this topic is not built yet")
    return [
        pytest.param(case, id=f"{topic}-{case.id}", marks=skipped if topic in PENDING_TOPICS else ())
        for topic in TOPICS
        for case in cases_of(topic)
    ]


@pytest.mark.full("core_edges-long-loops-in-a-loop-over-a-tuple", "control_flow-ten-thousand-steps")
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("case", _parameters())
def test_snippet(case: Case) -> None:
    run(case)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_names_each_case_once(topic: str) -> None:
    counted = Counter(case.id for case in cases_of(topic))
    assert counted.most_common(1)[0][1] == 1, counted.most_common(3)
