"""An ``nn.Module`` of the notebook is inlined where a cell calls it; PyTorch is the judge."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nnmagic

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    scale = 0.5

    def __init__(self, width: int, *, act: str = "relu") -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)
        self.gate = nn.Parameter(torch.full((width,), 0.25))
        self.act = act

    def forward(self, x: torch.Tensor, residual: bool = True) -> torch.Tensor:
        y = self.fc(self.norm(x))
        y = F.relu(y) if self.act == "relu" else torch.tanh(y)
        y = y * self.gate + self.shift(y)
        if residual:
            return x + y * self.scale
        return y

    def shift(self, y):
        return y.mean(dim=-1, keepdim=True)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.blocks = nn.ModuleList([Block(16), Block(16, act="tanh")])
        self.heads = nn.ModuleDict({"a": nn.Linear(64, 3), "b": nn.Identity()})
        self.drop = nn.Dropout(0.1)
        self.register_buffer("offset", torch.ones(3))

    def forward(self, images):
        x = self.stem(images)
        n, c, h, w = x.shape
        x = x.view(n, c, h * w)
        for block in self.blocks:
            x = block(x)
        x = self.drop(x)
        return self.heads["b"](self.heads["a"](torch.flatten(x, 1))) + self.offset


class Fails(nn.Module):
    def forward(self, x):
        y = x + 1
        with torch.no_grad():
            y = y * 2
        return y * 1


class Meanings(nn.Module):
    def forward(self, x):
        values, indices = x.max(dim=1)
        ordered, order = x.sort(-1, descending=True)
        first, *rest = x.split(3, -1)
        return (
            (x.std(-1), x.var(), x.std(0, unbiased=False), x.var(dim=0, keepdim=True, correction=0)),
            (values, indices, x.min(), x.max(0)[1], ordered, order, first, rest[-1]),
            (x.repeat(2, 1), x[0].repeat(3, 2), (x > 0).nonzero(), np.pi * math.sqrt(4.0) * x),
        )


class Refused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 4)

    def forward(self, x):
        return self.rnn(x)[0]


CALL = "def f(x: Tensor[{shape}, f32]):\n    return model(x)\n"


def compile_call(model: object, shape: str, **names: object) -> nnmagic.CompiledFunction:
    namespace = {**globals(), "model": model, **names}
    return nnmagic.compile(CALL.format(shape=shape), namespace=namespace)


def made(kind: type) -> object:
    torch.manual_seed(1)
    return kind().eval()


def assert_agrees(model, x: np.ndarray, shape: str) -> None:
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(compile_call(model, shape)(x), expected, rtol=1e-5, atol=1e-5)


def test_a_network_of_the_notebook() -> None:
    model = made(Network)
    model.stem[1].running_mean += 0.5
    x = np.random.default_rng(1).normal(size=(2, 1, 8, 8)).astype("float32")
    assert_agrees(model, x, '("n", 1, 8, 8)')


LAYERS = [
    (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2), nn.Softmax(dim=-1)), (3, 4)),
    (lambda: nn.Conv1d(2, 4, 3, stride=2, padding=1, groups=2), (1, 2, 9)),
    (lambda: nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), (1, 2, 4, 4)),
    (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.SiLU(), nn.AvgPool2d(2), nn.Flatten()), (1, 4, 4, 4)),
    (lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.LeakyReLU(0.2), nn.Hardswish()), (1, 2, 4, 4)),
    (lambda: nn.Sequential(nn.Sigmoid(), nn.Tanh(), nn.ELU(0.5), nn.Softplus(), nn.Mish()), (3, 4)),
    (lambda: nn.Sequential(nn.Unfold(2, padding=1, stride=2), nn.Fold((5, 4), 2, 1, 1, 2)), (1, 2, 5, 4)),
    (lambda: Block(4), (2, 4)),
]


@pytest.mark.parametrize("index", range(len(LAYERS)))
def test_layers_of_torch(index: int) -> None:
    make, shape = LAYERS[index]
    x = np.random.default_rng(1).normal(size=shape).astype("float32")
    assert_agrees(made(make), x, str(shape))


def test_an_embedding_and_a_method_and_a_member() -> None:
    model = made(lambda: nn.Embedding(5, 3))
    source = "def f(i: Tensor[(4,), i64]):\n    return model(i), model.weight[0]\n"
    i = np.array([0, 4, 2, 2])
    rows, first = nnmagic.compile(source, namespace={"model": model})(i)
    np.testing.assert_array_equal(rows, model(torch.from_numpy(i)).detach().numpy())
    np.testing.assert_array_equal(first, model.weight[0].detach().numpy())


def errors(model: object, shape: str = "(2, 4)", **names: object) -> list[nnmagic.diagnostics.Diagnostic]:
    with pytest.raises(nnmagic.TinyNNError) as caught:
        compile_call(model, shape, **names)
    return list(caught.value.diagnostics)


@pytest.mark.parametrize("parameter", ["x: Tensor[(4, 7), f32]", "x"])
def test_methods_mean_what_they_mean_in_pytorch(parameter: str) -> None:
    """Libraries that the module's file imports need not be imported by the notebook."""
    model, x = Meanings(), torch.randn(4, 7, generator=torch.Generator().manual_seed(5))
    source = f"def f({parameter}):\n    return model(x)\n"
    results, wanted = nnmagic.compile(source, namespace={"model": model})(x.numpy()), model(x)
    for ours, theirs in zip(results, wanted, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-5, atol=1e-6)
            assert one.shape == tuple(other.shape)


def test_a_median_in_a_module_is_the_lower_of_the_two_in_the_middle() -> None:
    class Median(nn.Module):
        def forward(self, x):
            return x.median(), x.median(dim=1).values

    module = Median()
    source = "def f(x: Tensor[(3, 4), f32]):\n    return module(x)\n"
    function = nnmagic.compile(source, namespace={"module": module}, cache=False)
    x = torch.tensor([[4.0, 1.0, 3.0, 2.0], [0.5, torch.nan, 0.25, 0.0], [7.0, 7.0, -1.0, 8.0]])
    for rows in (x, x[::2].repeat(2, 1)[:3]):
        for ours, theirs in zip(function(rows.numpy()), module(rows), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_refusal_shows_the_line_of_forward() -> None:
    (error,) = errors(Fails())
    message = (
        "Fails.forward is not within the language of a cell: `with torch.no_grad():` is not part of TinyNN"
    )
    assert error.message == message
    (note,) = error.notes
    assert note.span is not None
    assert note.span.source.line(note.span.line).strip() == "with torch.no_grad():"
    (error,) = errors(Refused())
    assert error.message == "`model.rnn` is torch's LSTM, which a cell cannot inline"
    assert error.span.source.line(error.span.line).strip() == "return self.rnn(x)[0]"


def test_what_a_cell_would_compute_otherwise_is_refused() -> None:
    (error,) = errors(nn.Dropout(0.5))
    assert error.message == "`model` is a Dropout that trains, and a compiled function infers"
    assert error.hint == "call model.eval() in another cell first"
    (error,) = errors(Block(4).eval(), F=np)
    assert error.message == "Block.forward uses `F`, which is another in the notebook"
    hooked = nn.Linear(4, 4)
    hooked.register_forward_hook(lambda *_: None)
    (error,) = errors(hooked)
    assert error.message == "`model` has hooks, and nothing of Python runs in a cell"


def test_a_changed_weight_is_compiled_anew() -> None:
    model, x = made(lambda: nn.Linear(4, 2)), np.ones((2, 4), "float32")
    first = compile_call(model, "(2, 4)")
    assert compile_call(model, "(2, 4)").cache_info.hit == "memory"
    with torch.no_grad():
        model.weight += 1
    second = compile_call(model, "(2, 4)")
    assert second.cache_info.hit is None
    np.testing.assert_allclose(second(x) - first(x), 4, rtol=1e-5)
