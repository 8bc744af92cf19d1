"""Export models of torchvision, transformers and torch as ONNX files, run them, and count what passes.

``python -m tests.importers.torch.exported [name ...]``. Each is exported with an open batch where torch can,
and is run at two sizes; some are quantized by onnxruntime, too. The judge is onnxruntime without its
optimizations.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

import nnmagic
from tests.importers.torch import models


class _Recurrent(torch.nn.Module):
    """A recurrent layer between an embedding and a projection."""

    def __init__(self, kind: type[torch.nn.Module]) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(99, 16)
        self.layer = kind(16, 24, num_layers=2, bidirectional=True, batch_first=True)
        self.projection = torch.nn.Linear(48, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        states, _ = self.layer(self.embedding(words))
        return self.projection(states)


RECURRENT = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}
#: Those that onnxruntime also quantizes: weights alone, or activations, too, as QDQ.
QUANTIZED = ("bert", "gpt2", "lstm", "resnet18", "mobilenet_v2", "squeezenet1_1", "vit")
NAMES = (*models.TEXT, *models.VISION, *RECURRENT, *(f"{name}, quantized" for name in QUANTIZED))


def make(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """Return a model by name, and an argument for it."""
    if name in RECURRENT:
        torch.manual_seed(0)
        return _Recurrent(RECURRENT[name]).eval(), torch.randint(0, 99, (2, 7))
    return models.make(name)


def export(module: torch.nn.Module, data: torch.Tensor) -> tuple[onnx.ModelProto, bool]:
    """Return the ONNX model, and whether its batch is open."""

    def write(**options: Any) -> onnx.ModelProto:
        program = torch.onnx.export(module, (data,), dynamo=True, verbose=False, **options)
        assert program is not None
        return program.model_proto

    try:
        return write(dynamic_shapes=({0: torch.export.Dim("batch")},)), True
    except Exception:  # torch cannot, and says so in many ways
        return write(), False


def quantize(model: onnx.ModelProto, data: np.ndarray) -> onnx.ModelProto:
    """Return the model with integer weights: of images with integer activations, too."""
    from onnxruntime import quantization

    class _Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{model.graph.input[0].name: data}]

        def get_next(self) -> Any:
            return self.left.pop() if self.left else None

    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "model.onnx"), Path(folder, "quantized.onnx")
        onnx.save(model, source)
        if data.dtype == np.float32:
            quantization.quantize_static(source, made, _Reader())
        else:
            quantization.quantize_dynamic(source, made)
        return onnx.load(made)


def judge(model: onnx.ModelProto, data: np.ndarray) -> list[np.ndarray]:
    """Return what onnxruntime computes."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return [np.asarray(each) for each in session.run(None, {session.get_inputs()[0].name: data})]


def check(name: str) -> str:
    """Export, import and run a model; return "passes" or what went wrong."""
    plain, _, is_quantized = name.partition(", ")
    module, tensor = make(plain)
    model, is_open = export(module, tensor)
    data = tensor.numpy()
    if is_quantized:
        model = quantize(model, data)
    function = nnmagic.from_onnx(model, cache=False)
    tolerance = 0.05 if is_quantized else 1e-4  # a number beside a half is rounded to either side
    for size in (2, 3) if is_open else (2,):
        batch = np.concatenate([data, data[::-1]])[:size]
        found = function(batch)
        results = [np.asarray(each) for each in (found if isinstance(found, tuple) else (found,))]
        for actual, expected in zip(results, judge(model, batch), strict=True):
            error = float(np.abs(actual - expected).max() / max(np.abs(expected).max(), 1e-6))
            if actual.shape != expected.shape or actual.dtype != expected.dtype or not error <= tolerance:
                return f"wrong: {actual.dtype}{actual.shape}, an error of {error:.2g} of the largest number"
    return "passes" if is_open else "passes, one size"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    models.count_passes(parser.parse_args().names or NAMES, check)


if __name__ == "__main__":
    main()
