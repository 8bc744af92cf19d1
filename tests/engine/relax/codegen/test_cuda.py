"""What compiling for CUDA does without a device; ``test_cuda_device.py`` runs code on one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import nnmagic
from nnmagic.engine import EngineError
from nnmagic.engine.relax.codegen import cuda, cuda_compiler
from nnmagic.engine.relax.runtime import cuda_device

pytestmark = pytest.mark.sampled(every=3)

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
    launched = set(re.findall(r"def (\w+)[(\[]", layer.stages["tir"]))
    assert kernels == launched - {name for name in launched if name.startswith("shape_func")}
    assert "3.25" in source
    assert "5.75" in source
    assert "blockIdx.x" in source
    assert 'thread="threadIdx.x"' in layer.stages["tir"]


@pytest.mark.skipif(not cuda_device.missing_device(), reason="there is a CUDA device here")
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
        ({"kind": "cuda", "warps": 1}, "it has no setting 'warps'; its settings are arch, "),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        nnmagic.compile("def f(x: Tensor[(3,), f32]): return x + 1", target=settings, cache=False).build()


def source_of(text: str) -> str:
    return nnmagic.compile(text, target={"kind": "cuda", "arch": "sm_80"}, cache=False).stages["cuda"]


def test_arithmetic_is_exact_in_the_source() -> None:
    product = source_of("def f(x: Tensor[(64, 32), f32], y: Tensor[(32, 48), f32]):\n    return x @ y\n")
    assert "fmaf(" in product
    assert "__restrict__" not in product
    element = source_of("def f(x: Tensor[(8,), f32]):\n    return exp(x) - x * x, sin(x), x ** 2.5\n")
    assert all(f" {name}(" in element or f"({name}(" in element for name in ("expf", "sinf", "powf"))
    assert not re.search(r"__(exp|sin|pow)f", element)
    assert not cuda_compiler._OPTIONS.count("--use_fast_math")
    assert "--fmad=false" in cuda_compiler._OPTIONS


def test_int64_wraps_in_unsigned_arithmetic() -> None:
    source = """def f(x: Tensor[("n",), i64], y: Tensor[("n",), i64]):
    return x * y * 3 - 1, abs(x + 1) < -y, x ** 3 // 5
"""
    text = nnmagic.compile(source, target="cuda", cache=False).stages["cuda"]
    assert "int128" not in text
    assert len(re.findall(r"uint64_t v_\w* = .*\(uint64_t\).* [*+-] \(*\(uint64_t\)", text)) >= 6


def test_constants_keep_all_digits() -> None:
    source = source_of(
        "def f(x: Tensor[(8,), f64], y: Tensor[(8,), f32]):\n    return x * 1.25e-20, x * 0.5, y * 0.1\n"
    )
    bits = int(np.array(1.25e-20).view(np.int64))
    assert f"__longlong_as_double((int64_t){bits})" in source
    assert "0.500000000000000" in source
    assert float.fromhex(re.search(r"(0x1\.9[0-9a-f]*p-4)f", source)[1]) == pytest.approx(0.1)  # type: ignore[index]


def test_no_variable_has_the_name_of_a_type() -> None:
    source = source_of('def f(x: Tensor[("half", 4), f16]):\n    return sinh(x) + acos(x)\n')
    assert "int64_t half_" in source
    assert not re.search(r"(int64_t|int|float) (half|signed)\b", source)


def test_several_threads_share_a_reduction_that_keeps_nan() -> None:
    source = source_of("def f(x: Tensor[(64, 300), f32]):\n    return softmax(x, axis=-1)\n")
    assert source.count("__global__") == 2  # declared and defined
    assert "__shfl_down_sync" in source


def test_arrays_between_steps_are_parameters() -> None:
    function = nnmagic.compile(
        'def f(x: Tensor[("n", 60), f32]):\n    return sort(x, axis=0)\n', target="cuda"
    )
    assert re.search(r"sort_kernel\(.*words_ptr", function.stages["cuda"])
    assert "words" in function.stages["tir"]


def test_a_refusal_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "device_architecture", lambda: "sm_80")
    monkeypatch.setattr(cuda_compiler, "find_compiler", lambda _architecture, _device: None)
    text = "def f(x: Tensor[(3,), f32]):\n    return x + 1.0\n"
    function = nnmagic.compile(text, target={"kind": "cuda", "arch": "sm_80"}, cache=False)
    with pytest.raises(EngineError, match="pip install nvidia-cuda-nvrtc"):
        function(np.ones(3, "f4"))
    newer = nnmagic.compile(text, target={"kind": "cuda", "arch": "sm_90"}, cache=False)
    with pytest.raises(EngineError, match="its architecture sm_90 is newer than the device's, sm_80"):
        newer(np.ones(3, "f4"))


def test_what_nvidia_s_compiler_refuses_is_told_where_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "def f(x: Tensor[(3,), f32]):\n    return cumsum(x), exp(x)\n"
    lines = source_of(cell).splitlines()
    (number,) = (at for at, line in enumerate(lines, 1) if "expf(" in line)

    def refuse(_whole: object, _target: object) -> object:
        raise cuda_compiler.CudaCompilerError(f"kernels.cu({number}): error: no such thing\n1 error")

    monkeypatch.setattr(cuda, "_refusal", lambda _architecture: "")
    monkeypatch.setattr(cuda, "_compile", refuse)
    with pytest.raises(EngineError) as caught:
        nnmagic.compile(cell, target={"kind": "cuda", "arch": "sm_80"}, cache=False).build()
    assert "NVIDIA's compiler refuses the kernel exp: no such thing" in str(caught.value)
    assert "2 |     return cumsum(x), exp(x)\n  |                       ^^^^^^" in str(caught.value)


def test_a_kernel_that_needs_too_much_memory_is_told() -> None:
    log = "ptxas error   : Entry function 'nn_matmul_kernel_1' uses too much shared data (0x1 bytes)"
    assert cuda._refused_kernel(log, "")[0] == "nn_matmul"
