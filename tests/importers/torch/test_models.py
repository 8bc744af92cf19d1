"""A few whole models; ``python -m tests.importers.torch.models`` and ``...exported`` run all of them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.importers.torch import models

pytestmark = [pytest.mark.full, pytest.mark.filterwarnings("ignore")]  # torch's own warnings


@pytest.mark.parametrize("name", ["resnet18", "squeezenet1_1"])
def test_torchvision(name: str) -> None:
    pytest.importorskip("torchvision")
    assert models.check(name) == "passes"


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_transformers(name: str) -> None:
    pytest.importorskip("transformers")
    assert models.check(name) == "passes"


@pytest.mark.parametrize("name", ["lstm", "distilbert", "squeezenet1_1, quantized"])
def test_exported_as_onnx(name: str) -> None:
    pytest.importorskip("onnxscript")
    from tests.importers.torch import exported

    assert exported.check(name) == "passes"
