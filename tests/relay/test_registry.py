"""Rules of operators: each name is declared once, above a function or in a row of a table."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from nnmagic.relay.registry import Registry, declare_rows


def test_a_name_is_declared_once() -> None:
    table: Registry[str, int] = Registry("the rule of")
    table["add"] = 1
    with pytest.raises(ValueError, match="the rule of 'add' is declared twice"):
        table["add"] = 2
    assert table == {"add": 1}


def test_a_row_has_one_name_or_several() -> None:
    table: Registry[str, int] = Registry("the rule of")

    def declare(*names: str) -> Callable[[int], None]:
        def enter(rule: int) -> None:
            for name in names:
                table[name] = rule

        return enter

    declare_rows(declare, {"add subtract": 1, "multiply": 2})
    assert table == {"add": 1, "subtract": 1, "multiply": 2}
    with pytest.raises(ValueError, match="'subtract' is declared twice"):
        declare_rows(declare, {"subtract": 3})


@pytest.mark.parametrize(
    "registry",
    ["exporters.onnx", "importers.onnx", "importers.torch", "relay.gradients", "relay.batching"],
)
def test_every_registry_refuses_a_second_rule(registry: str) -> None:
    module = import_module(f"nnmagic.{registry}.registry")
    declare = getattr(module, "operators", None) or module.rules
    with pytest.raises(ValueError, match="declared twice"):
        declare({"twice twice": lambda _call: None})
    for name in ("OPERATORS", "RULES", "_DECLARED"):
        table = getattr(module, name, {})
        for key in [key for key in table if "twice" in str(key)]:
            del table[key]
