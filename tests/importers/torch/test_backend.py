"""``torch.compile(f, backend="nnmagic")``: eager torch judges results and gradients."""

from __future__ import annotations

import copy
import importlib.metadata
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from nnmagic.functions.from_torch import torch_backend  # noqa: E402 - behind the skip

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Counter:
    """The backend, which counts its graphs."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, example_inputs: Any) -> Any:
        self.graphs += 1
        return torch_backend(graph, example_inputs)


def test_inference_of_many_sizes_is_compiled_twice() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3))
    backend = Counter()
    compiled = torch.compile(module, backend=backend)
    with torch.no_grad():
        for rows in (4, 5, 9, 17):
            data = torch.randn(rows, 6)
            torch.testing.assert_close(compiled(data), module(data))
    assert backend.graphs == 2  # for the first size, then for any


def test_torch_knows_the_name() -> None:
    found = importlib.metadata.entry_points(group="torch_dynamo_backends", name="nnmagic")
    if not found:
        pytest.skip("nnmagic is not installed here")
    assert "nnmagic" in torch._dynamo.list_backends()
    data = torch.ones(3)
    torch.testing.assert_close(torch.compile(lambda x: x.sin() * 2, backend="nnmagic")(data), data.sin() * 2)


def test_training() -> None:
    module = torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3, padding=1, stride=2),
        torch.nn.BatchNorm2d(4),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(16, 8),
        torch.nn.LayerNorm(8),
        torch.nn.Linear(8, 3),
    )
    twin = copy.deepcopy(module)
    compiled = torch.compile(module, backend=torch_backend)
    data, labels = torch.randn(5, 2, 8, 8), torch.tensor([0, 1, 2, 1, 0])
    optimizers = [torch.optim.SGD(item.parameters(), lr=0.1) for item in (module, twin)]
    for _ in range(3):
        losses = []
        for run, optimizer in zip((compiled, twin), optimizers, strict=True):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(run(data), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        torch.testing.assert_close(*losses)
    torch.testing.assert_close(module.state_dict(), twin.state_dict(), rtol=1e-4, atol=1e-5)


def test_a_branch_and_outside_code_break_the_graph() -> None:
    seen = []

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        seen.append(float(y.sum()))  # outside code
        return y + 1 if y.sum() > 0 else y - 1

    compiled = torch.compile(f, backend=torch_backend)
    for data in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(compiled(data), f(data))
    assert seen[0] == seen[1] == 6.0


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("masked", ["nothing", "keys", "places", "both"])
def test_inference_of_a_transformer(masked: str, norm_first: bool) -> None:
    """For inference torch has one operator for the whole layer, which Dynamo captures."""
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", norm_first=norm_first, batch_first=True).eval()
    masks = {}
    if masked in ("keys", "both"):
        masks["src_key_padding_mask"] = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    if masked in ("places", "both"):
        masks["src_mask"] = torch.ones(5, 5, dtype=torch.bool).triu(1)
    compiled = torch.compile(layer, backend="nnmagic", options={"engine": "numpy"})
    data = torch.randn(2, 5, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(data, **masks), layer(data, **masks), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"need_weights": False}, {"average_attn_weights": False}], ids=str)
def test_inference_of_attention(options: dict[str, bool]) -> None:
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    compiled = torch.compile(attention, backend="nnmagic", options={"engine": "numpy"})
    data = torch.randn(2, 5, 8)
    with torch.no_grad():
        found, expected = (run(data, data, data, **options) for run in (compiled, attention))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_arguments_that_are_changed_and_views() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.mul_(2)
        return x.view(-1), x.sum()

    data = torch.ones(2, 3)
    flat, total = torch.compile(f, backend=torch_backend)(data)
    torch.testing.assert_close(data, torch.full((2, 3), 2.0))
    assert flat.data_ptr() == data.data_ptr()
    assert float(total) == 12.0


def test_unknown_options_are_refused() -> None:
    compiled = torch.compile(torch.sin, backend=torch_backend, options={"speed": 3})
    with pytest.raises(Exception, match="no option 'speed'"):
        compiled(torch.ones(2))


def test_unsupported_operators_are_named() -> None:
    compiled = torch.compile(lambda x: torch.special.bessel_j0(x) + 1, backend=torch_backend)
    with pytest.raises(Exception, match="bessel_j0"):
        compiled(torch.ones(2))


def test_passes_of_one_s_own_run_on_the_program() -> None:
    import nnmagic

    seen = []

    def count(module: nnmagic.relay.Module) -> nnmagic.relay.Module:
        seen.append(len(module.functions))
        return module

    module, data = torch.nn.Linear(3, 2), torch.randn(4, 3)
    with torch.no_grad():
        expected = module(data)
        torch.testing.assert_close(nnmagic.from_torch(module, (data,), passes=[count])(data), expected)
        compiled = torch.compile(module, backend="nnmagic", options={"passes": [count]})
        torch.testing.assert_close(compiled(data), expected)
    assert len(seen) >= 2


@pytest.mark.parametrize("dynamic", [None, True])
def test_training_with_batches_of_changing_size(dynamic: bool | None) -> None:
    """With ``dynamic=True`` those of images are open, too: the graph is compiled for each call's."""
    nn = torch.nn
    module = nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)),
        *(nn.ConvTranspose2d(4, 2, 2, 2), nn.ReplicationPad2d(1), nn.AvgPool2d(3)),
        *(nn.AdaptiveMaxPool2d((2, 1)), nn.Flatten(), nn.Linear(4, 3)),
    )
    twin = copy.deepcopy(module)
    compiled = torch.compile(module, backend="nnmagic", dynamic=dynamic, options={"engine": "numpy"})
    for count in (4, 3, 5):
        data = torch.randn(count, 2, 7, 6)
        for run in (compiled, twin):
            run(data).pow(2).sum().backward()
        for found, expected in zip(module.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(found.grad, expected.grad, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_compiled_for_any_size_is_refused() -> None:
    compiled = torch.compile(lambda x: torch.linalg.ldl_factor(x @ x.mT)[0], backend="nnmagic", dynamic=True)
    with pytest.raises(Exception, match="linalg_ldl_factor_ex"):
        compiled(torch.randn(3, 3))


def test_indices_of_fewer_rows_than_the_tensor() -> None:
    options = {"engine": "numpy"}
    compiled = torch.compile(lambda x, i: x.gather(1, i), backend="nnmagic", dynamic=True, options=options)
    data = torch.arange(20.0).view(4, 5)
    for rows, columns in ((4, 2), (2, 6), (0, 3)):
        index = torch.arange(rows * columns).view(rows, columns) % 5
        torch.testing.assert_close(compiled(data, index), data.gather(1, index), check_stride=True)


def test_distinct_elements_of_none() -> None:
    compiled = torch.compile(
        lambda x: torch.unique(x[x > 0], return_inverse=True, return_counts=True),
        backend="nnmagic",
        options={"engine": "numpy"},
    )
    for data in (torch.tensor([3, -1, 2, 3, 7, 2]), torch.tensor([-1, -2])):
        expected = torch.unique(data[data > 0], return_inverse=True, return_counts=True)
        for found, wanted in zip(compiled(data), expected, strict=True):
            torch.testing.assert_close(found, wanted)
