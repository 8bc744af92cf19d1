"""The examples of docs/language.md compile, and its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from nnmagic.tinynn.builtins import BUILTINS, METHODS
from nnmagic.tinynn.types.annotations import DTYPES
from tests.tinynn.cases import errors_of

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")
EXAMPLES = [
    block
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.S | re.M)
    if not block.startswith("from typing")  # a file, which tools/check_examples.py checks
]


@pytest.mark.parametrize("source", EXAMPLES, ids=[re.findall(r"def (\w+)", text)[0] for text in EXAMPLES])
def test_an_example_compiles(source: str) -> None:
    assert not errors_of(source, {"np": np})


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("name", [*DTYPES, *BUILTINS, *METHODS])
def test_every_name_of_the_language_is_on_the_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)
