"""Whole models as others write them: ONNX models beside onnxruntime, PyTorch modules beside inductor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import layers, onnx_models, torch_modules
from benchmarks.case import Arrays, Program, Ratio
from benchmarks.cases.products import normal
from benchmarks.peers import Ready, joined, module, onnx_ready, onnx_session

#: Of each model; over all of them the goal is a geometric mean of 1.
_GOALS = (Ratio("onnxruntime", 0.4),)


def _from_onnx(make: Callable[[], bytes], arguments: Arrays, _threads: int) -> Ready:
    function = module("nnmagic").from_onnx(make(), cache=False)
    given = list(arguments.values())
    return Ready(lambda: function(*given), joined)


def _onnxruntime(make: Callable[[], bytes], arguments: Arrays, threads: int) -> Ready:
    return onnx_ready(onnx_session(make(), threads), arguments)


def _as_written(make: Callable[[], bytes], arguments: Arrays) -> np.ndarray:
    """Return the result of a model that nobody has optimised."""
    result = onnx_ready(onnx_session(make(), 1, optimised=False), arguments)
    return result.read(result.call())


def onnx_row(
    name: str, make: Callable[[], bytes], *, tolerance: float = 1e-4, **inputs: tuple[int, ...]
) -> Program:
    """Return the row of an ONNX model, which ``make`` writes; onnxruntime without optimisations judges."""
    return Program(
        f"onnx: {name}",
        "models",
        _GOALS,
        normal(**inputs),
        {"nnmagic": partial(_from_onnx, make), "onnxruntime": partial(_onnxruntime, make)},
        partial(_as_written, make),
        tolerance,
    )


def _torch(make: Callable[[], Any], backend: str | None, arguments: Arrays, threads: int) -> Ready:
    """Return a call of a module: eager, or compiled by a backend."""
    torch = module("torch")
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    run = made = make()
    if backend is not None:
        options = {"cache": False} if backend == "nnmagic" else None
        run = torch.compile(made, backend=backend, options=options, fullgraph=True, dynamic=False)
    tensors = [torch.tensor(array) for array in arguments.values()]
    return Ready(lambda: run(*tensors), joined)


def torch_row(name: str, make: Callable[[], Any], **inputs: tuple[int, ...]) -> Program:
    """Return the row of a PyTorch module, which ``make`` makes; eager torch judges in f64."""
    return Program(
        f"torch: {name}",
        "models",
        (Ratio("torch.compile", 1.0),),
        normal(**inputs),
        {
            "nnmagic": partial(_torch, make, "nnmagic"),
            "torch": partial(_torch, make, None),
            "torch.compile": partial(_torch, make, "inductor"),
        },
        lambda arguments: torch_modules.in_double(make(), *arguments.values()),
    )


_IMAGE = (1, 3, onnx_models.SIDE, onnx_models.SIDE)

ROWS = (
    onnx_row("squeezenet", partial(onnx_models.light, "squeezenet"), data_0=(1, 3, 224, 224)),
    onnx_row(
        "resnet-18, 3x112x112",
        lambda: onnx_models.convolutional(layers.resnet18(side=112)),
        x=(1, 3, 112, 112),
    ),
    onnx_row("mobilenet-v1", lambda: onnx_models.convolutional(layers.mobilenet()), x=(1, 3, 224, 224)),
    onnx_row(
        "transformer, 2 layers",
        partial(onnx_models.transformer, 2),
        x=(1, onnx_models.TOKENS, onnx_models.WIDTH),
    ),
    onnx_row("lstm, bidirectional", onnx_models.lstm, x=(onnx_models.STEPS, 1, onnx_models.FEATURES)),
    onnx_row("quantised cnn", onnx_models.quantised, x=_IMAGE, tolerance=2e-2),
    onnx_row("scikit-learn pipeline", onnx_models.pipeline, x=(onnx_models.ROWS, onnx_models.COLUMNS)),
    onnx_row("u-net", onnx_models.unet, x=_IMAGE),
    torch_row("cnn", torch_modules.convolutional, x=(1, 3, torch_modules.SIDE, torch_modules.SIDE)),
    torch_row(
        "transformer layer", torch_modules.encoder_layer, x=(1, torch_modules.TOKENS, torch_modules.WIDTH)
    ),
)
