"""Training steps of ResNet-18, with their memory and compilation, and of a transformer block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import backward_networks, layers
from benchmarks.case import BEST, Arrays, Case, Compilation, Memory, Ratio, Within
from benchmarks.cases.training import annotations, cross_entropy_in_jax, sgd
from benchmarks.peers import compilation, joined, module

# -- ResNet-18 ---------------------------------------------------------------------------------------------

_BATCH = 8
_NET = layers.resnet18(batch=_BATCH, side=64)
_STATE = [name for name in _NET.weights if name.startswith(("mean", "variance"))]
_PARAMS = [name for name in _NET.weights if name not in _STATE]
_CLASSES = 1000
_RATE = 0.1
_MOMENTUM = 0.1


def _draw_step(rng: np.random.Generator) -> dict[str, np.ndarray]:
    drawn = _NET.draw_weights(rng)
    ordered = {name: drawn[name] for name in (*_PARAMS, *_STATE)}
    return {**ordered, **_NET.draw_input(rng), "t": rng.integers(0, _CLASSES, _BATCH)}


def _step_cell() -> str:
    shapes = {name: _NET.weights[name] for name in (*_PARAMS, *_STATE)}
    head = annotations(shapes, _CLASSES, {"x": _NET.shapes["x"]})
    lines = [f"    {layers.training_call(layer)}" for layer in _NET.layers]
    state = ", ".join(f"new_{name}" for name in _STATE)
    every, argnums = ", ".join([*_PARAMS, *_STATE, "x", "t"]), tuple(range(len(_PARAMS)))
    return "\n".join(
        [
            f"def loss({head}):",
            *lines,
            f"    return cross_entropy({_NET.result}, t), ({state})",
            "",
            f"def step({head}):",
            f"    both, gradients = value_and_grad(loss, {argnums}, has_aux=True)({every})",
            "    value, state = both",
            f"    moved = [p - {_RATE} * g for p, g in zip(({', '.join(_PARAMS)}), gradients)]",
            "    return value, moved, state",
            "",
        ]
    )


def _logits(operators: dict[str, Any], library: Any, params: Any, state: Any, x: Any) -> Any:
    named = dict(zip((*_PARAMS, *_STATE), (*params, *state), strict=True))
    weights = [named[name] for name in _NET.weights]
    return _NET.function(lambda _: operators)(library, x, *weights)


def _split(given: Any) -> tuple[Any, Any, Any, Any]:
    first, second = len(_PARAMS), len(_PARAMS) + len(_STATE)
    return given[:first], given[first:second], given[second], given[second + 1]


def _step_in_torch(torch: Any, *given: Any) -> Any:
    params, state, x, t = _split(given)
    functional = torch.nn.functional

    def loss(own: Any) -> Any:
        moved: list[Any] = []

        def norm(_: Any, data: Any, mean: Any, variance: Any, scale: Any, shift: Any) -> Any:
            moved.extend((mean.clone(), variance.clone()))
            return functional.batch_norm(
                data, *moved[-2:], scale, shift, training=True, momentum=_MOMENTUM, eps=layers.EPSILON
            )

        operators = {**layers.in_torch(torch), "batch_norm": norm}
        return functional.cross_entropy(_logits(operators, torch, own, state, x), t), tuple(moved)

    if torch.compiler.is_compiling():
        gradients, (value, moved) = torch.func.grad_and_value(loss, has_aux=True)(params)
    else:
        with torch.enable_grad():
            own = [each.detach().requires_grad_() for each in params]
            value, moved = loss(own)
            gradients = torch.autograd.grad(value, own)
    return value.detach(), *(p - _RATE * g for p, g in zip(params, gradients, strict=True)), *moved


def _step_in_jax(jax: Any, *given: Any) -> Any:
    params, state, x, t = _split(given)

    def loss(own: Any) -> Any:
        moved: list[Any] = []

        def norm(_: Any, data: Any, mean: Any, variance: Any, scale: Any, shift: Any) -> Any:
            now = data.mean((0, 2, 3)), data.var((0, 2, 3))
            count = data.size / data.shape[1]
            unbiased = now[0], now[1] * (count / (count - 1))
            moved.extend(
                (1 - _MOMENTUM) * old + _MOMENTUM * new
                for old, new in zip((mean, variance), unbiased, strict=True)
            )
            factor = scale * jax.lax.rsqrt(now[1] + layers.EPSILON)
            return (data - now[0][:, None, None]) * factor[:, None, None] + shift[:, None, None]

        operators = {**layers.in_jax(jax), "batch_norm": norm}
        return cross_entropy_in_jax(jax, _logits(operators, jax, own, state, x), t), tuple(moved)

    (value, moved), gradients = jax.value_and_grad(loss, has_aux=True)(tuple(params))
    return value, *(p - _RATE * g for p, g in zip(params, gradients, strict=True)), *moved


def _step_in_numpy(*given: np.ndarray) -> np.ndarray:
    params, state, x, t = _split(given)
    named = dict(zip((*_PARAMS, *_STATE), (*params, *state), strict=True))
    value, gradients, moved = backward_networks.network(_NET, named, x, t, layers.EPSILON, _MOMENTUM)
    after = [p - _RATE * gradients[name] for name, p in zip(_PARAMS, params, strict=True)]
    return joined((value, *after, *(moved[name] for name in _STATE)))


RESNET = Case(
    "resnet-18 3x64x64, training",
    "training",
    (Ratio(BEST, 1.1),),
    _draw_step,
    _step_cell(),
    _step_in_numpy,
    torch=_step_in_torch,
    jax=_step_in_jax,
    flops=3 * _BATCH * _NET.flops,
    tolerance=1e-3,
)


def _arguments() -> Arrays:
    return RESNET.arguments(np.random.default_rng(0))


def _expected() -> np.ndarray:
    exact = [each.astype("float64") if each.dtype.kind == "f" else each for each in _arguments().values()]
    return np.asarray(_step_in_numpy(*exact))


def _compile_cell() -> Callable[[], Any]:
    return compilation(RESNET.source, _arguments().values())


def _compile_in_jax() -> Callable[[], Any]:
    jax, arguments = module("jax"), list(_arguments().values())
    jax.config.update("jax_enable_x64", True)  # noqa: FBT003 - its own interface
    jax.jit(lambda x: x + 1)(np.ones(1, "float32")).block_until_ready()
    return lambda: joined(jax.jit(lambda *given: _step_in_jax(jax, *given))(*arguments))


# -- a transformer block -----------------------------------------------------------------------------------

_SEQUENCES, _LENGTH, _WIDTH, _HEADS = 8, 64, 256, 4
_INNER = 4 * _WIDTH
_BLOCK = {
    "g1": (_WIDTH,), "h1": (_WIDTH,), "w1": (_WIDTH, 3 * _WIDTH), "b1": (3 * _WIDTH,),
    "w2": (_WIDTH, _WIDTH), "b2": (_WIDTH,), "g2": (_WIDTH,), "h2": (_WIDTH,),
    "w3": (_WIDTH, _INNER), "b3": (_INNER,), "w4": (_INNER, _WIDTH), "b4": (_WIDTH,),
}  # fmt: skip
_BLOCK_BODY = f"""y = layer_norm(x, ({_WIDTH},), g1, h1)
y = (y @ w1 + b1).reshape({_SEQUENCES}, {_LENGTH}, 3, {_HEADS}, {_WIDTH // _HEADS}).transpose(2, 0, 3, 1, 4)
y = scaled_dot_product_attention(y[0], y[1], y[2]).transpose(0, 2, 1, 3)
z = x + y.reshape({_SEQUENCES}, {_LENGTH}, {_WIDTH}) @ w2 + b2
y = gelu(layer_norm(z, ({_WIDTH},), g2, h2) @ w3 + b3, approximate="tanh")
z = z + y @ w4 + b4
return (z * z).mean()"""


def _block_in_torch(torch: Any, *given: Any) -> Any:
    g1, h1, w1, b1, w2, b2, g2, h2, w3, b3, w4, b4, x = given
    functional = torch.nn.functional
    y = functional.layer_norm(x, (_WIDTH,), g1, h1)
    y = (y @ w1 + b1).reshape(_SEQUENCES, _LENGTH, 3, _HEADS, _WIDTH // _HEADS).permute(2, 0, 3, 1, 4)
    y = functional.scaled_dot_product_attention(y[0], y[1], y[2]).transpose(1, 2)
    z = x + y.reshape(x.shape) @ w2 + b2
    y = functional.gelu(functional.layer_norm(z, (_WIDTH,), g2, h2) @ w3 + b3, approximate="tanh")
    z = z + y @ w4 + b4
    return (z * z).mean()


def _block_in_jax(jax: Any, *given: Any) -> Any:
    g1, h1, w1, b1, w2, b2, g2, h2, w3, b3, w4, b4, x = given

    def norm(data: Any, scale: Any, shift: Any) -> Any:
        factor = jax.lax.rsqrt(data.var(-1, keepdims=True) + layers.EPSILON)
        return (data - data.mean(-1, keepdims=True)) * factor * scale + shift

    y = (norm(x, g1, h1) @ w1 + b1).reshape(_SEQUENCES, _LENGTH, 3, _HEADS, _WIDTH // _HEADS)
    q, k, v = y.transpose(2, 0, 3, 1, 4)
    shares = jax.nn.softmax(q @ k.swapaxes(2, 3) * (_WIDTH // _HEADS) ** -0.5, axis=-1)
    z = x + (shares @ v).transpose(0, 2, 1, 3).reshape(x.shape) @ w2 + b2
    y = jax.nn.gelu(norm(z, g2, h2) @ w3 + b3, approximate=True)
    z = z + y @ w4 + b4
    return (z * z).mean()


BLOCK = sgd(
    "transformer block", 1.0, _BLOCK, {"x": (_SEQUENCES, _LENGTH, _WIDTH)}, _BLOCK_BODY,
    partial(backward_networks.transformer_block, _HEADS, layers.EPSILON), _block_in_torch, _block_in_jax,
)  # fmt: skip

ROWS = (
    RESNET,
    BLOCK,
    Compilation(
        "compile resnet-18, training", "training", (Within(8.0), Ratio("jax.jit", 1.0)),
        {"nnmagic": _compile_cell, "jax.jit": _compile_in_jax}, _expected, tolerance=1e-3,
    ),
    Memory("memory of resnet-18, training", "training", (Ratio("torch", 1 / 1.1),), RESNET),
)  # fmt: skip
