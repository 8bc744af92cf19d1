"""CUDA source, generated without a device; ``tests/tools`` compiles it."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nnmagic
from nnmagic.engine import EngineError

SOURCE = """\
def layer(x: Tensor[("n", 32), f32], w: Tensor[(32, 16), f32]):
    y = relu(x @ w + 3.25)
    return softmax(y, axis=-1) * 5.75, y.argmax(axis=1)
"""


LIST = """\
class List:
    def Nil(): ...
    def Cons(head: Tensor[(3,), f32], tail: List): ...

def f(xs: List) -> Tensor[(3,), f32]:
    match xs:
        case Nil():
            return zeros((3,), f32)
        case Cons(head, tail):
            return head + f(tail)
"""


@pytest.fixture(scope="module")
def layer() -> nnmagic.CompiledFunction:
    return nnmagic.compile(SOURCE, target="cuda", cache=False)


def test_every_kernel_has_source(layer: nnmagic.CompiledFunction) -> None:
    assert list(layer.stages)[-3:] == ["relax", "tir", "cuda"]
    source = layer.stages["cuda"]
    kernels = set(re.findall(r'extern "C" __global__ void \S+ (\w+?)_kernel(?:_\d+)?\(', source))
    launched = set(re.findall(r"def (\w+)\(", layer.stages["tir"]))
    assert kernels == launched - {name for name in launched if name.startswith("shape_func")}
    assert "3.25" in source
    assert "5.75" in source
    assert "blockIdx.x" in source
    assert 'thread="threadIdx.x"' in layer.stages["tir"]


def test_a_call_says_that_there_is_no_device(layer: nnmagic.CompiledFunction) -> None:
    arguments = np.ones((3, 32), "float32"), np.ones((32, 16), "float32")
    with pytest.raises(
        EngineError, match="@layer was compiled for CUDA, and there is no CUDA device"
    ) as caught:
        layer(*arguments)
    assert "layer.stages['cuda'] is its source" in str(caught.value)
    with pytest.raises(ValueError, match="must be Tensor"):
        layer(arguments[1], arguments[0])


def test_nothing_of_it_is_kept_on_disk() -> None:
    source = "def one(x: Tensor[(8,), f32]): return exp(x) + 1.25"
    for _ in range(2):
        function = nnmagic.compile(source, target={"kind": "cuda", "arch": "sm_90"})
        assert "1.25" in function.stages["cuda"]
    cpu = nnmagic.compile(source)
    np.testing.assert_allclose(cpu(np.zeros(8, "float32")), 2.25)
    assert "cuda" not in cpu.stages


@pytest.mark.parametrize(
    ("source", "message", "place"),
    [
        (
            "def f(x: Tensor[(3, 3), f64]):\n    return inv(x) + 1",
            "TVM has no CUDA code for the kernel linalg_inv: it calls a library of the CPU",
            "2 |     return inv(x) + 1\n  |            ^^^^^^",
        ),
        (
            LIST,
            "@f has data types or functions as values, for which no CUDA code is generated",
            "def f(xs: List)",
        ),
    ],
)
def test_what_a_gpu_cannot_is_refused_where_it_stands(source: str, message: str, place: str) -> None:
    with pytest.raises(EngineError) as caught:
        nnmagic.compile(source, target="cuda", cache=False).build()
    assert message in str(caught.value)
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "cuda", "arch": "ampere"}, "arch must be like 'sm_80', not 'ampere'"),
        ({"kind": "cuda", "warps": 1}, "Unknown config option 'warps'"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        nnmagic.compile("def f(x: Tensor[(3,), f32]): return x + 1", target=settings, cache=False).build()
