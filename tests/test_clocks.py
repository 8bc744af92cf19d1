"""No test passes or fails by a clock: on a busy machine everything takes longer, and nothing is wrong.

`make bench` measures how fast things are; a test counts work (tests/work.py). A clock may end what hangs.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

CLOCKS = {"time", "perf_counter", "monotonic", "process_time", "thread_time"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}
ROOT = Path(__file__).parent


def find_clock_reads(tree: ast.AST) -> list[int]:
    """The lines of the assertions that read a clock, or a name that was assigned what depends on one."""
    names: set[str] = set()

    def reads_a_clock(node: ast.AST) -> bool:
        return any(
            (isinstance(part, ast.Name) and part.id in names)
            or (
                isinstance(part, ast.Attribute)
                and part.attr in CLOCKS
                and isinstance(part.value, ast.Name)
                and part.value.id == "time"
            )
            for part in ast.walk(node)
        )

    assigned = [
        node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AugAssign | ast.NamedExpr)
    ]
    before = -1
    while before < len(names):
        before = len(names)
        for node in assigned:
            if reads_a_clock(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {
                    part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)
                }
    return [
        node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert) and reads_a_clock(node.test)
    ]


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("assert time.monotonic() - begin < 5", [1]),
        ("begin = time.perf_counter()\nx = 1\nend = begin + 5\nassert x\nassert end > 3", [5]),
        ("first, second = time.time(), 1\nassert second < 2", [2]),
        ("while time.monotonic() < end:\n    pass\nassert done", []),
        ("assert node.time() == run.monotonic", []),
    ],
)
def test_an_assertion_that_reads_a_clock_is_found(code: str, lines: list[int]) -> None:
    assert find_clock_reads(ast.parse(code)) == lines


@pytest.mark.full
def test_no_assertion_reads_a_clock() -> None:
    reads = []
    for path in sorted(ROOT.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        reads += [f"{path.relative_to(ROOT)}:{line}" for node in functions for line in find_clock_reads(node)]
    assert not reads
