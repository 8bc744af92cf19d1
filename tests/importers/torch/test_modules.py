"""Modules through torch.export: torch itself judges the numbers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

import nnmagic  # noqa: E402 - behind the skip

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own


@pytest.fixture(autouse=True)
def _seed() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Linear(8, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.max_pool2d(torch.relu(self.norm(self.first(images))), 2)
        return torch.log_softmax(self.last(hidden.mean((2, 3))), -1)


def test_a_network_of_any_batch() -> None:
    module = Convolutions().eval()
    images = torch.randn(4, 3, 16, 16)
    batch = torch.export.Dim("batch")
    function = nnmagic.from_torch(module, (images,), dynamic_shapes={"images": {0: batch}})
    for size in (1, 2, 7):
        images = torch.randn(size, 3, 16, 16)
        close(function(images), module(images))
    with pytest.raises((ValueError, TypeError), match="images"):
        function(torch.randn(2, 3, 16, 17))
    assert "batch" in str(function.function.__signature__)


def test_a_transformer_of_any_length() -> None:
    module = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True).eval()
    data = torch.randn(2, 5, 16)
    length = torch.export.Dim("length", min=2, max=64)
    function = nnmagic.from_torch(module, (data,), dynamic_shapes=({1: length},))
    for size in (3, 11):
        data = torch.randn(2, size, 16)
        close(function(data), module(data))
    with pytest.raises(ValueError, match="captured for 2 to 64"):
        function(torch.randn(2, 65, 16))


def test_a_recurrent_network() -> None:
    module = nn.LSTM(6, 8, num_layers=2, bidirectional=True, batch_first=True)
    data = torch.randn(3, 5, 6)
    function = nnmagic.from_torch(module, (data,))
    close(function(data), module(data))  # a tuple that holds a tuple


def test_buffers_that_training_updates() -> None:
    module = nn.BatchNorm1d(4).train()
    twin = copy.deepcopy(module)
    data = torch.randn(8, 4)
    function = nnmagic.from_torch(module, (data,))
    for _ in range(2):
        data = torch.randn(8, 4)
        close(function(data), twin(data))
    close(dict(module.named_buffers()), dict(twin.named_buffers()))
    assert int(module.num_batches_tracked) == 2


def test_arguments_that_the_program_changes() -> None:
    def count(state: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        state.add_(by)
        return state * 2

    state = torch.zeros(3)
    function = nnmagic.from_torch(count, (torch.zeros(3), torch.ones(3)))
    result = function(state, torch.ones(3))
    close(state, torch.ones(3))
    close(result, torch.full((3,), 2.0))


def test_structures_and_constants() -> None:
    def f(pair: tuple[Any, Any], *, table: dict[str, Any], flag: bool) -> dict[str, Any]:
        left, right = pair
        total = left + right if flag else left - right
        return {"sum": total, "same": left, "nothing": None, "nested": [table["x"] * 2, 3]}

    x, y = torch.randn(2), torch.randn(2)
    function = nnmagic.from_torch(f, ((x, y),), {"table": {"x": x}, "flag": True})
    result = function((x, y), flag=True, table={"x": x})
    close(result["sum"], x + y)
    assert result["same"] is x
    assert result["nothing"] is None
    assert result["nested"][1] == 3
    with pytest.raises(ValueError, match="must be True"):
        function((x, y), table={"x": x}, flag=False)
    with pytest.raises(TypeError, match="structure"):
        function(x, y, table={"x": x}, flag=True)


def test_one_tensor_as_the_example_of_two_arguments() -> None:
    module = nn.Linear(3, 3, bias=False)
    data = torch.randn(3, 3)

    def difference(left: torch.Tensor, *, right: torch.Tensor) -> torch.Tensor:
        return left - right

    function = nnmagic.from_torch(difference, (data,), {"right": data})
    close(function(data * 3, right=data), data * 2)
    close(nnmagic.from_torch(module, (module.weight,))(data), module(data))


def test_numpy_in_numpy_out() -> None:
    function = nnmagic.from_torch(torch.sin, (torch.zeros(4),))
    data = np.linspace(0, 3, 4, dtype="float32")
    result = function(data)
    assert isinstance(result, np.ndarray)
    np.testing.assert_allclose(result, np.sin(data), rtol=1e-6)
    assert isinstance(function(torch.from_numpy(data)), torch.Tensor)


def test_weights_are_those_of_the_import() -> None:
    module = nn.Linear(3, 2)
    data = torch.randn(4, 3)
    before = module(data)
    function = nnmagic.from_torch(module, (data,))
    module.weight.zero_()
    close(function(data), before)


def test_tied_weights_are_one_constant() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(50, 8)
            self.head = nn.Linear(8, 50, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.head(self.table(ids))

    module = Tied()
    ids = torch.tensor([[1, 2], [3, 49]])
    function = nnmagic.from_torch(module, (ids,))
    close(function(ids), module(ids))
    with pytest.raises(AssertionError, match="out of range"):
        function(ids + 1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int64", "bool"])
def test_dtypes(dtype: str) -> None:
    kind = getattr(torch, dtype)
    data = (torch.randn(3, 4) * 3).to(kind)
    module = lambda x: (torch.cat([x, x], 1), x.sum(0), x.T)  # noqa: E731 - any function
    function = nnmagic.from_torch(module, (data,), name="f")
    torch.testing.assert_close(function(data), module(data))


def test_tensors_of_any_layout() -> None:
    function = nnmagic.from_torch(torch.exp, (torch.zeros(4, 3),))
    data = torch.randn(3, 4).T
    close(function(data), torch.exp(data))
    close(function(torch.randn(8, 3)[::2].neg()), torch.exp(torch.zeros(4, 3)) * 0, tolerance=1e9)


def test_no_gradient_is_lost_silently() -> None:
    function = nnmagic.from_torch(torch.sin, (torch.zeros(2),))
    with torch.enable_grad(), pytest.raises(RuntimeError, match="requires a gradient"):
        function(torch.ones(2, requires_grad=True))


def test_an_exported_program() -> None:
    program = torch.export.export(nn.Linear(3, 2), (torch.randn(1, 3),))
    data = torch.randn(1, 3)
    close(nnmagic.from_torch(program)(data), program.module()(data))
    with pytest.raises(TypeError, match="left out"):
        nnmagic.from_torch(program, (data,))


def test_the_relay_module() -> None:
    module = nnmagic.relay.from_torch(nn.ReLU(), (torch.zeros(2, 3),), name="activation")
    assert list(module.functions) == ["activation"]
    assert "nn.relu" in str(module)


def test_the_source_is_a_listing_with_the_lines_of_the_module() -> None:
    class Net(torch.nn.Module):
        def forward(self, x, index):
            positive = torch.relu(x)
            return positive[:, index]

    args = torch.ones(2, 3), torch.tensor([0, 1])
    function = nnmagic.from_torch(Net(), args)
    lines = function.stages["source"].splitlines()
    assert lines[:4] == ["Net(", "  x: float32[2, 3]", "  index: int64[2]", "):"]
    assert any(line.startswith("  relu = aten.relu(x)  # test_modules.py:") for line in lines)
    assert "positive = torch.relu(x)" in function.stages["source"]
    where = r"(?s)out of range.*<torch Net>:\d+:.*aten.index\(.*test_modules\.py:\d+"
    with pytest.raises(AssertionError, match=where):
        function(torch.ones(2, 3), torch.tensor([0, 7]))


@pytest.mark.parametrize("size", [5, 6, 8, 11])
@pytest.mark.parametrize("options", [(2, 2), (3, 2), (3, 2, 1), (3, 3), (2, 3, 1), (3, 2, 0, 2)], ids=str)
def test_pools_whose_last_windows_go_beyond_the_image(size: int, options: tuple[int, ...]) -> None:
    class Pool(nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return nn.functional.max_pool2d(images, *options, ceil_mode=True)

    images = torch.randn(2, 3, size, size + 1)
    function = nnmagic.from_torch(Pool(), (images,), cache=False)
    assert torch.equal(function(images), Pool()(images))
    assert "argmax" not in str(function.relay_text), "the places are only computed if something uses them"


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "align_corners"])
@pytest.mark.parametrize("scale", [2.0, 0.5, "size"], ids=str)
def test_images_of_any_size_are_resampled(mode: str, scale: float | str) -> None:
    options: dict[str, Any] = {"mode": mode}
    if mode == "align_corners":
        options = {"mode": "bilinear", "align_corners": True}

    def resample(images: torch.Tensor) -> torch.Tensor:
        if scale == "size":
            return nn.functional.interpolate(images[:, :, ::2], size=images.shape[-2:], **options)
        return nn.functional.interpolate(images, scale_factor=scale, **options)

    half = torch.export.Dim("half", min=4, max=64)
    shapes = ({2: 2 * half},)
    function = nnmagic.from_torch(resample, (torch.randn(1, 2, 8, 6),), dynamic_shapes=shapes, engine="numpy")
    for size in (8, 10, 14):
        images = torch.randn(1, 2, size, 6)
        close(function(images), resample(images))


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_pools_and_resampled_images_spread_no_nan(factor: float) -> None:
    images = torch.randn(1, 1, 8, 8)
    images[0, 0, 2, 5] = factor
    functions = {
        "adaptive": lambda x: nn.functional.adaptive_avg_pool2d(x, (3, 5)),
        "ceil": lambda x: nn.functional.avg_pool2d(x, 3, 2, ceil_mode=True),
        "linear": lambda x: nn.functional.interpolate(x, size=(11, 5), mode="bilinear"),
        "cubic": lambda x: nn.functional.interpolate(x, size=(11, 5), mode="bicubic"),
        "antialiased": lambda x: nn.functional.interpolate(x, size=(3, 5), mode="bilinear", antialias=True),
        "largest": lambda x: nn.functional.adaptive_max_pool2d(x, 3, return_indices=True),
    }

    def f(x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {name: function(x) for name, function in functions.items()}

    function = nnmagic.from_torch(f, (images,), engine="numpy")
    torch.testing.assert_close(function(images), f(images), rtol=1e-5, atol=1e-5, equal_nan=True)
