"""Programs that were once wrong, each with what was wrong, and the arguments that showed it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.random_programs.families import rules_of
from tests.random_programs.program import Program


def load_cells() -> dict[str, Program]:
    """Return the cells by what was wrong: lines of JSON, as ``Program.record`` has them."""
    lines = Path(__file__).with_name("cells.jsonl").read_text("utf-8").splitlines()
    records = map(json.loads, lines)
    return {record["what"]: Program.of_record(record, rules_of(record["family"])) for record in records}
