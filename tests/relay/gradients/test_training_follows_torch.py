"""The training steps of examples/training.ipynb: a hundred losses, against PyTorch's of the same batches."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nnmagic

NOTEBOOK = Path(__file__).parents[3] / "examples" / "training.ipynb"
STEPS = 100


def cell(function: str, namespace: dict[str, Any]) -> nnmagic.CompiledFunction:
    """Return a function that a cell of the notebook defines last."""
    for each in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        magic, _, text = "".join(each["source"]).partition("\n")
        if magic.startswith("%%tinynn") and f"def {function}(" in text:
            return nnmagic.compile(text, namespace=namespace)
    raise AssertionError(f"no cell defines {function}")


def drawn(rng: np.random.Generator, *shapes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    return tuple((rng.normal(size=shape) * 0.2).astype("float32") for shape in shapes)


def tensors(torch: ModuleType, params: tuple[np.ndarray, ...]) -> list[Any]:
    return [torch.tensor(each, requires_grad=True) for each in params]


def test_the_perceptrons_losses_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    step = cell("mlp_step", {})
    rng = np.random.default_rng(5)
    params = drawn(rng, (64, 32), (32,), (32, 10), (10,))
    velocity = tuple(np.zeros_like(each) for each in params)
    w1, b1, w2, b2 = own = tensors(torch, params)
    optimiser = torch.optim.SGD(own, lr=0.1, momentum=0.9)
    found, expected = [], []
    for _ in range(STEPS):
        images, labels = rng.uniform(size=(32, 64)).astype("float32"), rng.integers(0, 10, 32)
        loss, params, velocity = step(params, velocity, images, labels)
        found.append(float(loss))
        optimiser.zero_grad()
        logits = torch.tanh(torch.tensor(images) @ w1 + b1) @ w2 + b2
        error = torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
        error.backward()
        optimiser.step()
        expected.append(error.item())
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_the_convolutional_networks_losses_are_torchs() -> None:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    shapes = (8, 1, 3, 3), (8,), (16, 8, 3, 3), (16,), (64, 10), (10,)
    types = tuple[tuple(nnmagic.Tensor[shape, nnmagic.f32] for shape in shapes)]  # type: ignore[misc] # at run time
    step = cell("network_step", {"Weights": types})
    rng = np.random.default_rng(6)
    params = drawn(rng, *shapes)
    first = second = tuple(np.zeros_like(each) for each in params)
    w1, b1, w2, b2, w3, b3 = own = tensors(torch, params)
    optimiser = torch.optim.Adam(own, lr=0.01)
    found, expected = [], []
    for number in range(1, STEPS + 1):
        images, labels = rng.uniform(size=(32, 1, 8, 8)).astype("float32"), rng.integers(0, 10, 32)
        loss, params, first, second = step(params, first, second, number, images, labels)
        found.append(float(loss))
        optimiser.zero_grad()
        h = functional.max_pool2d(torch.relu(functional.conv2d(torch.tensor(images), w1, b1, padding=1)), 2)
        h = functional.max_pool2d(torch.relu(functional.conv2d(h, w2, b2, padding=1)), 2)
        error = functional.cross_entropy(h.reshape(32, -1) @ w3 + b3, torch.tensor(labels))
        error.backward()
        optimiser.step()
        expected.append(error.item())
    np.testing.assert_allclose(found, expected, rtol=1e-4)
