"""Golden texts of the passes: each file holds an input and what pipelines of passes make of it.

A section ``== inline(which="all") | to_a_normal_form ==`` is the input after these passes.
``== input, typed ==`` is parsed with type inference, whose annotations show in what follows; other inputs
stay untyped.
"""

import re
from pathlib import Path

import pytest

from nnmagic.relay import infer_type, passes
from nnmagic.relay.text.parser import parse_module

FOLDER = Path(__file__).parents[2] / "golden" / "passes"
VERSION = '#[version = "0.0.5"]\n'
SECTION = re.compile(r"^== (.*) ==\n", re.MULTILINE)


def sections(path):
    """The titles and texts of a file, in order."""
    _, *parts = SECTION.split(path.read_text())
    return list(zip(parts[::2], parts[1::2], strict=True))


def run(title, module):
    """The module after the passes that a title names."""
    for step in title.split(" | "):
        name, _, arguments = step.partition("(")
        keywords = dict(re.findall(r'(\w+)="?(\w+)"?', arguments))
        converted = {key: int(value) if value.isdigit() else value for key, value in keywords.items()}
        module = getattr(passes, name)(module, **converted)
    return module


def strip_comments(module):
    return re.sub(r" /\* (ty|span)=.*? \*/", "", str(module)).rstrip() + "\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_passes_give_the_golden_texts(path, request):
    (title, text), *expected = sections(path)
    assert title in ("input", "input, typed")
    module = parse_module(VERSION + text, path.name)
    if title == "input, typed":
        module = infer_type(module)
    actual = [(name, run(name, module)) for name, _ in expected]
    for _, result in actual:
        infer_type(result)  # raises where a pass broke the program
    if request.config.getoption("--update-golden"):
        parts = [(title, text), *((name, strip_comments(result) + "\n") for name, result in actual)]
        path.write_text("".join(f"== {name} ==\n{part}" for name, part in parts).rstrip() + "\n")
    else:
        for (name, result), (_, golden) in zip(actual, expected, strict=True):
            assert strip_comments(result).rstrip() == golden.rstrip(), name
