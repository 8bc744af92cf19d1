"""README.md and the pages of docs/ say with each figure of speed what measures it, and that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.cases import ROWS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
#: A time or a ratio of times; what something must exceed is none.
CLAIM = re.compile(
    r"(?<!than )(?<!about )(?<![\d.])\d[\d.]* (?:µs|us|ms|ns|s|seconds)\b|[\d.]+ times (?:as|the speed)|"
    r"twice as fast|speed of (?:numba|NumPy|JAX|C\b)|of \w+'s time"
)
#: What measures: rows of `make bench`, a program, a test.
MEASURE = re.compile(
    r"`(python -m benchmarks[.\w]*|make (?:bench|cookbook|test-runtime)\b|(?:tests|tools)/[\w/.]+\.py)[^`]*`"
)
SECTIONS = [
    pytest.param(section, id=f"{path.name}: {section.splitlines()[0].lstrip('# ')}")
    for path in PAGES
    if path.stem != "benchmarks"  # which says how all is measured
    for section in re.split(r"(?m)^(?=#+ )", re.sub(r"(?ms)^```.*?^```\n", "", path.read_text("utf-8")))
    if CLAIM.search(section)
]


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_with_a_figure_of_speed_says_what_measures_it(section: str) -> None:
    named = MEASURE.findall(section)
    assert named, CLAIM.findall(section)
    for each in named:
        *_, last = each.split()
        path = last.replace(".", "/") if "." in last and "/" not in last else last
        assert last in ("bench", "cookbook", "test-runtime", "benchmarks") or any(
            (ROOT / f"{path}{suffix}").is_file() for suffix in ("", ".py")
        ), each


def test_the_rows_that_are_named_exist() -> None:
    known = {row.name for row in ROWS}
    pages = "\n".join(path.read_text("utf-8") for path in PAGES if path.stem != "benchmarks")
    rows = []
    for named in re.findall(
        r"make bench`[,(]* ?\(?the rows? ((?:`[^`]+`[, and]*)+)", " ".join(pages.split())
    ):
        rows += named.split("`")[1::2]
    rows += re.findall(r"row of `make bench` \|\n.*\n((?:\|.*\n)+)", pages)[0].split("`")[1::2]
    assert len(rows) >= 14
    assert [name for name in rows if not any(row.startswith(name) for row in known)] == []
