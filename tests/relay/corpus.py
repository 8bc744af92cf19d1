"""What was measured on real Relay: programs, refusals, models; relay_corpus/README.md describes them."""

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "relay_corpus"


#: What tells the records of one kind from those of the others in files that hold all kinds.
FIELD = {"programs": "typed_text", "refused": "exception", "accepted_though_odd": "printed"}


def load_file(name):
    """The records of one file."""
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


def load_records(name):
    """The records of ``programs``, ``refused`` or ``accepted_though_odd``, in the files ``more_*``, too."""
    more = [record for path in sorted(FOLDER.glob("more_*.jsonl")) for record in load_file(path.stem)]
    return load_file(name) + [record for record in more if FIELD[name] in record]


def parameters(name):
    """The records as parameters of a test."""
    return [pytest.param(record, id=record["id"]) for record in load_records(name)]


def load_programs():
    return load_records("programs")


def models():
    """The texts of the models, by name."""
    return {path.stem: path.read_text() for path in sorted((FOLDER / "models").glob("*.relay"))}


def without_spans(text):
    return re.sub(r" span=[^ ]*? \*/", " */", text)
