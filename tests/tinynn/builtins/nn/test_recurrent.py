"""Recurrent networks against their definitions in PyTorch's manual, in NumPy and float64."""

# ruff: noqa: E501  # a case reads best on one line

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import nnmagic
from nnmagic.relay import expr as ir
from nnmagic.relay.structure.traverse import post_order
from tests.tinynn.cases import messages_of, program_of

GATES = {"rnn": 1, "lstm": 4, "gru": 3}
TIME, BATCH, SIZE, HIDDEN = 7, 2, 3, 5


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def step(
    kind: str, x: np.ndarray, states: Sequence[np.ndarray], weights: Sequence[np.ndarray]
) -> list[np.ndarray]:
    w_ih, w_hh, b_ih, b_hh = weights
    inputs, recurrent = x @ w_ih.T + b_ih, states[0] @ w_hh.T + b_hh
    if kind == "rnn":
        return [np.tanh(inputs + recurrent)]
    if kind == "lstm":
        i, f, g, o = np.split(inputs + recurrent, 4, axis=-1)
        cell = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(cell), cell]
    reset, update, new = np.split(inputs, 3, axis=-1)
    reset_h, update_h, new_h = np.split(recurrent, 3, axis=-1)
    reset, update = sigmoid(reset + reset_h), sigmoid(update + update_h)
    return [(1 - update) * np.tanh(new + reset * new_h) + update * states[0]]


def run(
    kind: str,
    x: np.ndarray,
    states: Sequence[np.ndarray],
    weights: Sequence[Sequence[np.ndarray]],
    directions: int = 1,
) -> list[np.ndarray]:
    """The output, and the last states; ``weights``: of each layer and direction, in PyTorch's order."""
    last: list[list[np.ndarray]] = [[] for _ in states]
    for layer in range(len(weights) // directions):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            current = [state[number] for state in states]
            rows = []
            for row in x[::-1] if direction else x:
                current = step(kind, row, current, weights[number])
                rows.append(current[0])
            outputs.append(np.stack(rows[::-1] if direction else rows))
            for parts, state in zip(last, current, strict=True):
                parts.append(state)
        x = np.concatenate(outputs, axis=-1)
    return [x, *(np.stack(parts) for parts in last)]


def weights_of(kind: str, size: int, seed: int = 0) -> list[np.ndarray]:
    rng, rows = np.random.default_rng(seed), GATES[kind] * HIDDEN
    shapes = [(rows, size), (rows, HIDDEN), (rows,), (rows,)]
    return [rng.standard_normal(shape).astype("float32") for shape in shapes]


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(9).standard_normal(shape).astype("float32")


def parts(result: object) -> list[np.ndarray]:
    if isinstance(result, tuple):
        return [part for value in result for part in parts(value)]
    assert isinstance(result, np.ndarray)
    return [result]


def check(source: str, namespace: dict[str, object], x: np.ndarray, expected: Sequence[np.ndarray]) -> None:
    assert_parts(nnmagic.compile(source, namespace=namespace, cache=False)(x), expected)


def assert_parts(result: object, expected: Sequence[np.ndarray]) -> None:
    for part, right in zip(parts(result), expected, strict=True):
        assert part.shape == right.shape
        np.testing.assert_allclose(part, right, rtol=1e-4, atol=1e-5)


def states_of(kind: str, *shape: int) -> list[np.ndarray]:
    return [random(*shape), random(*shape) * 2][: 2 if kind == "lstm" else 1]


@pytest.mark.parametrize("kind", GATES)
def test_one_layer_with_its_states(kind: str) -> None:
    weights, x = weights_of(kind, SIZE), random(TIME, BATCH, SIZE)
    states = states_of(kind, 1, BATCH, HIDDEN)
    source = f"def f(x: Tensor[({TIME}, {BATCH}, {SIZE}), f32]):\n    return {kind}(x, hx, *w)\n"
    namespace = {"hx": tuple(states) if len(states) > 1 else states[0], "w": tuple(weights)}
    source = source.replace("*w", "w[0], w[1], w[2], w[3]")
    check(source, namespace, x, run(kind, x, states, [weights]))


@pytest.mark.parametrize("kind", GATES)
def test_layers_in_two_directions_with_the_batch_first(kind: str) -> None:
    weights = [weights_of(kind, size, seed) for seed, size in enumerate((SIZE, SIZE, 2 * HIDDEN, 2 * HIDDEN))]
    x = random(BATCH, TIME, SIZE)
    zeros = [np.zeros((4, BATCH, HIDDEN))] * (2 if kind == "lstm" else 1)
    output, *states = run(kind, x.swapaxes(0, 1), zeros, weights, 2)
    source = (
        f"def f(x: Tensor[({BATCH}, {TIME}, {SIZE}), f32]):\n"
        f"    return {kind}(x, None, w_ih, w_hh, b_ih, b_hh, batch_first=True, bidirectional=True)\n"
    )
    names = ("w_ih", "w_hh", "b_ih", "b_hh")
    namespace = {name: tuple(one[index] for one in weights) for index, name in enumerate(names)}
    check(source, namespace, x, [output.swapaxes(0, 1), *states])


@pytest.mark.parametrize("kind", GATES)
def test_one_sequence_without_a_batch_and_without_biases(kind: str) -> None:
    w_ih, w_hh, b_ih, b_hh = weights_of(kind, SIZE)
    x = random(TIME, SIZE)
    zeros = [np.zeros((1, HIDDEN))] * (2 if kind == "lstm" else 1)
    source = f"def f(x: Tensor[({TIME}, {SIZE}), f32]):\n    return {kind}(x, w_ih=w_ih, w_hh=w_hh)\n"
    expected = run(kind, x, zeros, [(w_ih, w_hh, b_ih * 0, b_hh * 0)])
    check(source, {"w_ih": w_ih, "w_hh": w_hh}, x, expected)


@pytest.mark.full
@pytest.mark.parametrize("kind", GATES)
def test_a_time_and_a_batch_of_any_size(kind: str) -> None:
    weights = weights_of(kind, SIZE)
    source = f'def f(x: Tensor[("t", "n", {SIZE}), f32]):\n    return {kind}(x, None, a, b, c, d)\n'
    function = nnmagic.compile(source, namespace=dict(zip("abcd", weights, strict=True)), cache=False)
    for time, batch in ((1, 1), (3, 4), (20, 1)):
        x = random(time, batch, SIZE)
        zeros = [np.zeros((1, batch, HIDDEN))] * (2 if kind == "lstm" else 1)
        assert_parts(function(x), run(kind, x, zeros, [weights]))


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("batch", [(), (BATCH,)])
def test_a_cell(kind: str, batch: tuple[int, ...]) -> None:
    weights, x = weights_of(kind, SIZE), random(*batch, SIZE)
    states = states_of(kind, *batch, HIDDEN)
    shape = (*batch, SIZE)
    source = (
        f"def f(x: Tensor[{shape}, f32]):\n"
        f"    return {kind}_cell(x, hx, a, b, c, d), {kind}_cell(x, None, a, b, c, d)\n"
    )
    namespace = {
        **dict(zip("abcd", weights, strict=True)),
        "hx": tuple(states) if len(states) > 1 else states[0],
    }
    zeros = [np.zeros_like(state) for state in states]
    check(source, namespace, x, [*step(kind, x, states, weights), *step(kind, x, zeros, weights)])


def test_an_rnn_with_relu() -> None:
    w_ih, w_hh, b_ih, b_hh = (weight * 0.3 for weight in weights_of("rnn", SIZE))
    x = random(TIME, SIZE)
    hidden, rows = np.zeros(HIDDEN), []
    for row in x:
        hidden = np.maximum(row @ w_ih.T + b_ih + hidden @ w_hh.T + b_hh, 0)
        rows.append(hidden)
    source = (
        f"def f(x: Tensor[({TIME}, {SIZE}), f32]):\n"
        "    return rnn(x, None, a, b, c, d, nonlinearity='relu')[0], rnn_cell(x[0], None, a, b, c, d, nonlinearity='relu')\n"
    )
    check(source, {"a": w_ih, "b": w_hh, "c": b_ih, "d": b_hh}, x, [np.stack(rows), rows[0]])


def test_the_inputs_are_multiplied_once_before_the_loop() -> None:
    source = "def f(x: Tensor[(64, 2, 3), f32], a: Tensor[(20, 3), f32], b: Tensor[(20, 5), f32]):\n    return lstm(x, None, a, b)[0]\n"
    nodes = list(post_order(program_of(source).module.functions["f"]))
    (loop,) = (node for node in nodes if isinstance(node, ir.Let) and node.var.name_hint == "for_loop")
    products = [
        node
        for node in nodes
        if isinstance(node, ir.Call) and isinstance(node.op, ir.OpRef) and node.op.name == "nn.matmul"
    ]
    inside = [node for node in post_order(loop.value) if node in products]
    assert (len(products), len(inside)) == (2, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("lstm(x, h, a, b)", "lstm: `hx` must be a tuple (h, c), not a Tensor[(2, 5), f32]"),
        ("lstm(x, None, b, b)", "lstm: `w_ih` must have the shape (20, 3), not (20, 5)"),
        ("lstm(x, (h, h), a, b)", "lstm: `hx` must be of rank 3, not of shape (2, 5)"),
        ("gru(x, None, a, b)", "gru: `w_ih` must have the shape (15, 3), not (20, 3)"),
        ("lstm(x[0, 0], None, a, b)", "lstm takes (time, batch, size) or (time, size), not (3,)"),
        ("lstm(x, None, (a, a), b)", "lstm: `w_hh` must be 2 tensors, one for each layer and direction"),
        (
            "lstm(x, None, a, b, bidirectional=True)",
            "lstm: `w_ih` has 1 tensors, and two directions need two for each layer",
        ),
        (
            "rnn(x, None, a, b, nonlinearity='sine')",
            "rnn: `nonlinearity` must be one of 'tanh', 'relu', not the string 'sine'",
        ),
        ("lstm(x.astype(i32), None, a, b)", "lstm is defined for floats, not i32"),
        ("lstm_cell(x, None, a, b)", "lstm_cell takes (batch, size) or (size,), not (7, 2, 3)"),
    ],
)
def test_what_does_not_fit_is_refused(call: str, message: str) -> None:
    source = (
        "def f(x: Tensor[(7, 2, 3), f32], h: Tensor[(2, 5), f32], a: Tensor[(20, 3), f32], b: Tensor[(20, 5), f32]):\n"
        f"    return {call}\n"
    )
    (error,) = messages_of(source)
    assert message in error[-1]
