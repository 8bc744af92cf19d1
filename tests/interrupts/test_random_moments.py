"""Interrupts at random moments of compilations and calls; ``python -m tests.interrupts`` sends a thousand."""

from __future__ import annotations

import pytest

from tests.child_process import PATIENCE
from tests.interrupts.__main__ import interrupt
from tests.interrupts.programs import PROGRAMS
from tests.systems import POSIX

#: Seconds within which an interrupt ends what runs, on a busy machine.
_SLACK = 20.0 * PATIENCE


@POSIX
@pytest.mark.full
def test_an_interrupt_at_any_moment_ends_what_runs_and_leaves_the_rest() -> None:
    """One compilation and one call of every third program."""
    names = [each.name for each in PROGRAMS[::3]]
    report = interrupt(seed=1, count=2 * len(names), names=names)
    assert not report.faults, report.text()
    assert report.sent["compile"] > len(names) // 4
    assert report.sent["call"] > len(names) // 2
    assert max(report.latencies)[0] < _SLACK, report.text()
    assert max(report.idles)[0] < _SLACK, report.text()
