"""What was measured on real Relay: programs, refusals, models; relay_corpus/README.md describes them."""

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "relay_corpus"


def load_records(name):
    """The records of ``programs``, ``refused`` or ``accepted_though_odd``."""
    return [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


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
