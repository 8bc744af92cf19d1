"""Training steps: loss, gradients and new parameters in one call. NumPy's are written by hand, and judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks import backward
from benchmarks.case import BEST, Arrays, Case, Compilation, Draw, Ratio, Within
from benchmarks.peers import compilation, joined, module

#: How large a step of gradient descent is: so large that an error of the gradient shows.
RATE = 1.0


def _draw(params: dict[str, tuple[int, ...]], classes: int = 0, **data: tuple[int, ...]) -> Draw:
    """Draw parameters that keep the scale of what passes through them, data, and labels."""

    def draw(rng: np.random.Generator) -> dict[str, np.ndarray]:
        found = {}
        for name, shape in params.items():
            fan = int(np.prod(shape[1:] if len(shape) == 4 else shape[:1]))
            scale = fan**-0.5 if len(shape) > 1 else 0.1
            found[name] = np.asarray(rng.standard_normal(shape) * scale, "float32")
        found |= {name: rng.standard_normal(shape).astype("float32") for name, shape in data.items()}
        if classes:
            found["t"] = rng.integers(0, classes, next(iter(data.values()))[0])
        return found

    return draw


def annotations(params: dict[str, tuple[int, ...]], classes: int, data: dict[str, tuple[int, ...]]) -> str:
    parts = [f"{name}: Tensor[{shape}, f32]" for name, shape in (params | data).items()]
    if classes:
        parts.append(f"t: Tensor[({next(iter(data.values()))[0]},), i64]")
    return ", ".join(parts)


def _sgd_cell(
    params: dict[str, tuple[int, ...]], classes: int, data: dict[str, tuple[int, ...]], body: str
) -> str:
    """Return the cell of a step of gradient descent; ``body``: the lines of the loss."""
    head, names = annotations(params, classes, data), ", ".join(params)
    every = ", ".join([*params, *data, *(["t"] if classes else [])])
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    argnums = tuple(range(len(params)))
    return (
        f"def loss({head}):\n{lines}\n"
        f"def step({head}):\n"
        f"    value, gradients = value_and_grad(loss, {argnums})({every})\n"
        f"    return value, [p - {RATE} * g for p, g in zip(({names},), gradients)]\n"
    )


def sgd_in_torch(loss: Callable[..., Any], count: int) -> Callable[..., Any]:
    def step(torch: Any, *given: Any) -> Any:
        params, data = given[:count], given[count:]
        if torch.compiler.is_compiling():
            both = torch.func.grad_and_value(lambda own: loss(torch, *own, *data))
            gradients, value = both(params)
        else:
            with torch.enable_grad():
                own = [each.detach().requires_grad_() for each in params]
                value = loss(torch, *own, *data)
                gradients = torch.autograd.grad(value, own)
        return value.detach(), *(p - RATE * g for p, g in zip(params, gradients, strict=True))

    return step


def sgd_in_jax(loss: Callable[..., Any], count: int) -> Callable[..., Any]:
    def step(jax: Any, *given: Any) -> Any:
        both = jax.value_and_grad(lambda own: loss(jax, *own, *given[count:]))
        value, gradients = both(given[:count])
        return value, *(p - RATE * g for p, g in zip(given, gradients, strict=False))

    return step


def sgd_in_numpy(gradients: Callable[..., Any], count: int) -> Callable[..., np.ndarray]:
    def step(*given: np.ndarray) -> np.ndarray:
        value, found = gradients(*given)
        return joined((value, *(p - RATE * g for p, g in zip(given[:count], found, strict=True))))

    return step


def sgd(
    name: str,
    goal: float,
    params: dict[str, tuple[int, ...]],
    data: dict[str, tuple[int, ...]],
    body: str,
    in_numpy: Callable[..., Any],
    in_torch: Callable[..., Any],
    in_jax: Callable[..., Any],
    classes: int = 0,
) -> Case:
    """Return the row of a step of gradient descent."""
    count = len(params)
    return Case(
        f"{name}, training",
        "training",
        (Ratio(BEST, goal),),
        _draw(params, classes, **data),
        _sgd_cell(params, classes, data, body),
        sgd_in_numpy(in_numpy, count),
        torch=sgd_in_torch(in_torch, count),
        jax=sgd_in_jax(in_jax, count),
        tolerance=1e-4,
    )


def cross_entropy_in_jax(jax: Any, logits: Any, t: Any) -> Any:
    logs = jax.nn.log_softmax(logits)
    return -jax.numpy.take_along_axis(logs, t[:, None], axis=1).mean()


# -- a linear model, and layers ----------------------------------------------------------------------------


def _logistic_in_torch(torch: Any, w: Any, b: Any, x: Any, y: Any) -> Any:
    z = x @ w + b
    return (torch.nn.functional.softplus(z) - torch.tanh(y) * z).mean()


def _logistic_in_jax(jax: Any, w: Any, b: Any, x: Any, y: Any) -> Any:
    z = x @ w + b
    return (jax.nn.softplus(z) - jax.numpy.tanh(y) * z).mean()


_MLP = {"w1": (784, 256), "b1": (256,), "w2": (256, 128), "b2": (128,), "w3": (128, 10), "b3": (10,)}
_MLP_DATA = {"x": (128, 784)}
_MLP_BODY = """h = relu(x @ w1 + b1)
h = relu(h @ w2 + b2)
return cross_entropy(h @ w3 + b3, t)"""


def _mlp_in_torch(torch: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, t: Any) -> Any:
    h = torch.relu(torch.relu(x @ w1 + b1) @ w2 + b2)
    return torch.nn.functional.cross_entropy(h @ w3 + b3, t)


def _mlp_in_jax(jax: Any, w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, t: Any) -> Any:
    h = jax.nn.relu(jax.nn.relu(x @ w1 + b1) @ w2 + b2)
    return cross_entropy_in_jax(jax, h @ w3 + b3, t)


def _adam_update(p: Any, m: Any, v: Any, g: Any) -> tuple[Any, Any, Any]:
    """Return a parameter and its moments after the first step of Adam, in whichever library."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 0.01 * (m / 0.1) / ((v / 0.001) ** 0.5 + 1e-8), m, v


_MOMENTS = {f"{kind}{name}": shape for kind in "mv" for name, shape in _MLP.items()}


def _adam_draw(rng: np.random.Generator) -> dict[str, np.ndarray]:
    drawn = _draw({**_MLP, **_MOMENTS}, 10, **_MLP_DATA)(rng)
    return {name: abs(each) if name.startswith("v") else each for name, each in drawn.items()}


def _adam_cell() -> str:
    loss, names = annotations(_MLP, 10, _MLP_DATA), ", ".join(_MLP)
    head = annotations({**_MLP, **_MOMENTS}, 10, _MLP_DATA)
    body = "".join(f"    {line}\n" for line in _MLP_BODY.splitlines())
    firsts, seconds = (", ".join(f"{kind}{name}" for name in _MLP) for kind in "mv")
    return (
        f"def loss({loss}):\n{body}\n"
        f"def step({head}):\n"
        f"    value, gradients = value_and_grad(loss, {tuple(range(6))})({names}, x, t)\n"
        f"    first = [0.9 * m + 0.1 * g for m, g in zip(({firsts}), gradients)]\n"
        f"    second = [0.999 * v + 0.001 * g * g for v, g in zip(({seconds}), gradients)]\n"
        f"    moved = [p - 0.01 * (m / 0.1) / (sqrt(v / 0.001) + 1e-8) "
        f"for p, m, v in zip(({names}), first, second)]\n"
        "    return value, moved, first, second\n"
    )


def _adam(params: Sequence[Any], firsts: Sequence[Any], seconds: Sequence[Any], gradients: Any) -> Any:
    triples = [_adam_update(*each) for each in zip(params, firsts, seconds, gradients, strict=True)]
    return tuple(triple[part] for part in range(3) for triple in triples)


def _adam_in_numpy(*given: np.ndarray) -> np.ndarray:
    value, gradients = backward.mlp(*given[:6], *given[18:])
    return joined((value, *_adam(given[:6], given[6:12], given[12:18], gradients)))


def _adam_in_torch(torch: Any, *given: Any) -> Any:
    if torch.compiler.is_compiling():
        both = torch.func.grad_and_value(lambda own: _mlp_in_torch(torch, *own, *given[18:]))
        gradients, value = both(given[:6])
    else:
        with torch.enable_grad():
            own = [each.detach().requires_grad_() for each in given[:6]]
            value = _mlp_in_torch(torch, *own, *given[18:])
            gradients = torch.autograd.grad(value, own)
    return value.detach(), *_adam(given[:6], given[6:12], given[12:18], gradients)


def _adam_in_jax(jax: Any, *given: Any) -> Any:
    value, gradients = jax.value_and_grad(lambda own: _mlp_in_jax(jax, *own, *given[18:]))(given[:6])
    return value, *_adam(given[:6], given[6:12], given[12:18], gradients)


# -- images --------------------------------------------------------------------------------------------------

_LENET = {
    "w1": (6, 1, 5, 5), "b1": (6,), "w2": (16, 6, 5, 5), "b2": (16,),
    "w3": (400, 120), "b3": (120,), "w4": (120, 84), "b4": (84,), "w5": (84, 10), "b5": (10,),
}  # fmt: skip
_LENET_BODY = """h = max_pool2d(relu(conv2d(x, w1, b1, padding=2)), 2)
h = max_pool2d(relu(conv2d(h, w2, b2)), 2)
h = relu(h.reshape(64, 400) @ w3 + b3)
h = relu(h @ w4 + b4)
return cross_entropy(h @ w5 + b5, t)"""


def _lenet_in_torch(torch: Any, *given: Any) -> Any:
    w1, b1, w2, b2, w3, b3, w4, b4, w5, b5, x, t = given
    functional = torch.nn.functional
    h = functional.max_pool2d(torch.relu(functional.conv2d(x, w1, b1, padding=2)), 2)
    h = functional.max_pool2d(torch.relu(functional.conv2d(h, w2, b2)), 2)
    h = torch.relu(h.reshape(64, 400) @ w3 + b3)
    return functional.cross_entropy(torch.relu(h @ w4 + b4) @ w5 + b5, t)


def _lenet_in_jax(jax: Any, *given: Any) -> Any:
    w1, b1, w2, b2, w3, b3, w4, b4, w5, b5, x, t = given

    def layer(h: Any, w: Any, b: Any, pad: int) -> Any:
        h = jax.lax.conv(h, w, (1, 1), [(pad, pad)] * 2) + b[:, None, None]
        return jax.lax.reduce_window(
            jax.nn.relu(h), -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
        )

    h = layer(layer(x, w1, b1, 2), w2, b2, 0).reshape(64, 400)
    h = jax.nn.relu(jax.nn.relu(h @ w3 + b3) @ w4 + b4)
    return cross_entropy_in_jax(jax, h @ w5 + b5, t)


# -- sequences -----------------------------------------------------------------------------------------------

_WIDTH, _STEPS, _SEQUENCES = 64, 64, 8
_SEQUENCE = {"x": (_STEPS, _SEQUENCES, _WIDTH)}
#: What torch's functions want to be told.
_ONE_LAYER = {
    "has_biases": True, "num_layers": 1, "dropout": 0.0, "train": False, "bidirectional": False,
    "batch_first": False,
}  # fmt: skip


def _cell_of(gates: int) -> dict[str, tuple[int, ...]]:
    rows = gates * _WIDTH
    return {"w_ih": (rows, _WIDTH), "w_hh": (rows, _WIDTH), "b_ih": (rows,), "b_hh": (rows,)}


def _rnn_in_torch(torch: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, x: Any) -> Any:
    start = torch.zeros(1, _SEQUENCES, _WIDTH, dtype=x.dtype)
    weights = [w_ih, w_hh, b_ih, b_hh]
    out, _ = torch.rnn_tanh(x, start, weights, **_ONE_LAYER)
    return (out * out).mean()


def _rnn_in_jax(jax: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, x: Any) -> Any:
    def step(h: Any, given: Any) -> Any:
        h = jax.numpy.tanh(given @ w_ih.T + b_ih + h @ w_hh.T + b_hh)
        return h, h

    _, out = jax.lax.scan(step, jax.numpy.zeros((_SEQUENCES, _WIDTH), x.dtype), x)
    return (out * out).mean()


def _lstm_in_torch(torch: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, x: Any) -> Any:
    start = torch.zeros(1, _SEQUENCES, _WIDTH, dtype=x.dtype)
    weights = [w_ih, w_hh, b_ih, b_hh]
    out, _, _ = torch.lstm(x, [start, start], weights, **_ONE_LAYER)
    return (out * out).mean()


def _lstm_in_jax(jax: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, x: Any) -> Any:
    def step(state: Any, given: Any) -> Any:
        h, c = state
        gates = given @ w_ih.T + b_ih + h @ w_hh.T + b_hh
        i, f, g, o = jax.numpy.split(gates, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jax.numpy.tanh(g)
        h = jax.nn.sigmoid(o) * jax.numpy.tanh(c)
        return (h, c), h

    start = jax.numpy.zeros((_SEQUENCES, _WIDTH), x.dtype)
    _, out = jax.lax.scan(step, (start, start), x)
    return (out * out).mean()


# -- a loop of unknown length -----------------------------------------------------------------------------


def _relax_in_torch(torch: Any, a: Any, x: Any) -> Any:
    y = x
    while (y * y).sum() > 1e-3:
        y = torch.tanh(a @ y) * 0.9
    return (y * x).sum()


_LOOP = Case(
    "while loop, training",
    "training",
    (Ratio("torch", 5.0),),
    _draw({"a": (4, 4), "x": (4,)}),
    """def loss(a: Tensor[(4, 4), f32], x: Tensor[(4,), f32]):
    y = x
    while (y * y).sum() > 1e-3:
        y = tanh(a @ y) * 0.9
    return (y * x).sum()

def step(a: Tensor[(4, 4), f32], x: Tensor[(4,), f32]):
    value, gradients = value_and_grad(loss, (0, 1))(a, x)
    return value, [p - 1.0 * g for p, g in zip((a, x), gradients)]
""",
    sgd_in_numpy(backward.loop, 2),
    torch=sgd_in_torch(_relax_in_torch, 2),
    tolerance=1e-4,
    peers=("nnmagic", "numpy", "torch"),
)

LSTM = sgd(
    "lstm 64 steps", 1.0, _cell_of(4), _SEQUENCE,
    "out, _ = lstm(x, None, w_ih, w_hh, b_ih, b_hh)\nreturn (out * out).mean()",
    backward.lstm, _lstm_in_torch, _lstm_in_jax,
)  # fmt: skip


def _arguments() -> Arrays:
    return LSTM.arguments(np.random.default_rng(0))


def _compile_cell() -> Callable[[], Any]:
    return compilation(LSTM.source, _arguments().values())


def _compile_in_jax() -> Callable[[], Any]:
    jax, arguments = module("jax"), list(_arguments().values())
    jax.config.update("jax_enable_x64", True)  # noqa: FBT003 - its own interface
    step = sgd_in_jax(_lstm_in_jax, 4)
    jax.jit(lambda x: x + 1)(np.ones(1, "float32")).block_until_ready()
    return lambda: joined(jax.jit(lambda *given: step(jax, *given))(*arguments))


def _expected() -> np.ndarray:
    return np.asarray(LSTM.numpy(*(each.astype("float64") for each in _arguments().values())))


ROWS = (
    sgd(
        "logistic regression 1000x20", 1.3, {"w": (20,), "b": ()}, {"x": (1000, 20), "y": (1000,)},
        "z = x @ w + b\nreturn (softplus(z) - tanh(y) * z).mean()",
        backward.logistic, _logistic_in_torch, _logistic_in_jax,
    ),
    sgd("mlp", 1.3, _MLP, _MLP_DATA, _MLP_BODY, backward.mlp, _mlp_in_torch, _mlp_in_jax, 10),
    Case(
        "mlp with adam, training", "training", (Ratio(BEST, 1.3),), _adam_draw, _adam_cell(), _adam_in_numpy,
        torch=_adam_in_torch, jax=_adam_in_jax, tolerance=1e-4,
    ),
    sgd(
        "lenet", 1.1, _LENET, {"x": (64, 1, 28, 28)}, _LENET_BODY,
        backward.lenet, _lenet_in_torch, _lenet_in_jax, 10,
    ),
    sgd(
        "rnn 64 steps", 1.0, _cell_of(1), _SEQUENCE,
        "out, _ = rnn(x, None, w_ih, w_hh, b_ih, b_hh)\nreturn (out * out).mean()",
        backward.rnn, _rnn_in_torch, _rnn_in_jax,
    ),
    LSTM,
    _LOOP,
    Compilation(
        "compile lstm, training", "training", (Within(1.0), Ratio("jax.jit", 1.0)),
        {"nnmagic": _compile_cell, "jax.jit": _compile_in_jax}, _expected, tolerance=1e-4,
    ),
)  # fmt: skip
