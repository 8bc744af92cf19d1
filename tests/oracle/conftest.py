"""The judge as a fixture, and a summary of how much was compared."""

import os
from collections import Counter

import pytest

from tests.oracle.judge import Judge

#: Names the interpreter of an environment that has real Relay; `make oracle` makes one and sets it.
VARIABLE = "NNMAGIC_ORACLE"

#: The counts that tests record as properties of that prefix.
COUNT = "count of "


@pytest.fixture(scope="session")
def judge():
    """Real Relay, in a child process."""
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(f"{VARIABLE} names no Python that has real Relay (see `make oracle`)")
    made = Judge(python)
    yield made
    made.close()


@pytest.fixture
def count(record_property):
    """Records how many of something a test has compared."""
    return lambda what, number: record_property(COUNT + what, number)


def pytest_terminal_summary(terminalreporter):
    """Adds up the counts of all tests."""
    totals = Counter()
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for name, number in report.user_properties:
            if name.startswith(COUNT) and report.when == "call":
                totals[name.removeprefix(COUNT)] += number
    if totals:
        terminalreporter.section("compared with real Relay")
        for name, number in totals.items():
            terminalreporter.line(f"{number:6} {name}")
