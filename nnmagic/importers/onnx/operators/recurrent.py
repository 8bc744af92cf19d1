"""Import RNN, GRU and LSTM: one loop over the steps, or the steps themselves where there are few.

The standard: https://onnx.ai/onnx/operators/onnx__LSTM.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.blocks import OnnxBlock
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.loops import emit_loop
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.operators.activations import activation, pick
from nnmagic.importers.onnx.operators.control_flow import buffer_of, write_row
from nnmagic.importers.onnx.operators.fused import MICROSOFT, only, per_column
from nnmagic.importers.onnx.operators.integer_products import Multiply, multiply_matrices
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.operators.quantization import quantize_dynamically
from nnmagic.importers.onnx.registry import operator, operators
from nnmagic.importers.onnx.values import Value, constant, op, with_shape
from nnmagic.relay.types import Dim

#: So many steps are written out.
_UNROLLED_STEPS = 4

Activation = Callable[[Value], Value]
#: (gates of the input, states, the layer of one direction) -> the new states, the output first.
Cell = Callable[["Value", "Sequence[Value]", "_Layer"], "list[Value]"]


@dataclass(frozen=True, slots=True)
class _Layer:
    """One direction of a recurrent layer.

    ``recurrent``: the transposed weights (hidden, gates * hidden). ``bias``: what is added to the recurrent
    part, or None. ``peepholes``: of an LSTM. ``multiply``: how states meet the weights.
    """

    hidden: int
    recurrent: Value
    bias: Value | None
    functions: Sequence[Activation]
    peepholes: Value | None
    clip: float | None
    flag: bool
    multiply: Multiply


def _gate(gates: Value, index: int, hidden: int) -> Value:
    return shapes.slice_axis(gates, 1, index * hidden, (index + 1) * hidden)


def _clip(x: Value, clip: float | None) -> Value:
    return x if clip is None else x.maximum(-clip).minimum(clip)


def _rnn_cell(gates: Value, states: Sequence[Value], layer: _Layer) -> list[Value]:
    total = gates + matmul(states[0], layer.recurrent)
    return [layer.functions[0](_clip(total, layer.clip))]


def _gru_cell(gates: Value, states: Sequence[Value], layer: _Layer) -> list[Value]:
    (before,) = states
    size = layer.hidden
    both = shapes.slice_axis(layer.recurrent, 1, 0, 2 * size)
    last = shapes.slice_axis(layer.recurrent, 1, 2 * size, 3 * size)
    from_state = matmul(before, both)
    squash, candidate = layer.functions
    update = squash(_clip(_gate(gates, 0, size) + _gate(from_state, 0, size), layer.clip))
    reset = squash(_clip(_gate(gates, 1, size) + _gate(from_state, 1, size), layer.clip))
    bias = None if layer.bias is None else shapes.slice_axis(layer.bias, 0, 2 * size, 3 * size)
    if layer.flag:
        inner = matmul(before, last)
        recurrent = reset * (inner if bias is None else inner + bias)
    else:
        recurrent = matmul(reset * before, last)
        recurrent = recurrent if bias is None else recurrent + bias
    new = candidate(_clip(_gate(gates, 2, size) + recurrent, layer.clip))
    return [(1 - update) * new + update * before]


def _lstm_cell(gates: Value, states: Sequence[Value], layer: _Layer) -> list[Value]:
    """Compute a step of an LSTM, whose gates are in the order input, output, forget, cell."""
    hidden, cell = states
    size = layer.hidden
    total = gates + layer.multiply(hidden, layer.recurrent)
    squash, inner, outer = layer.functions
    parts = [_gate(total, index, size) for index in range(4)]
    if layer.peepholes is not None:
        peeps = [
            shapes.slice_axis(layer.peepholes, 0, index * size, (index + 1) * size) for index in range(3)
        ]
        parts[0] = parts[0] + peeps[0] * cell
        parts[2] = parts[2] + peeps[2] * cell
    entering = squash(_clip(parts[0], layer.clip))
    forgetting = 1 - entering if layer.flag else squash(_clip(parts[2], layer.clip))
    new = forgetting * cell + entering * inner(_clip(parts[3], layer.clip))
    if layer.peepholes is not None:
        parts[1] = parts[1] + peeps[1] * new
    leaving = squash(_clip(parts[1], layer.clip))
    return [leaving * outer(new), new]


#: (node, number of the input that has the weights, direction) -> how data meet these weights.
MultiplyOf = Callable[[OnnxNode, int, int], Multiply]


def _recurrent(
    node: OnnxNode, cell: Cell, gates: int, defaults: Sequence[str], multiply_of: MultiplyOf | None = None
) -> list[Value]:
    """Import a layer; ``multiply_of``: of one whose weights are quantized, and transposed."""
    data, weights, recurrent = node[0], node[1], node[2]
    by_batch = bool(node.integer("layout")) if node.since >= 14 else False
    if by_batch:
        data = shapes.transpose(data, [1, 0, 2])
    direction = node.text("direction", "forward")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise UnsupportedError(f"the direction {direction!r} is not known")
    count = 2 if direction == "bidirectional" else 1
    hidden = shapes.static_shape(recurrent)[2 if multiply_of is None else 1]
    if node.integer("hidden_size", hidden) != hidden:
        raise UnsupportedError(f"hidden_size is {node.integer('hidden_size')}, and the weights' is {hidden}")
    is_lstm = gates == 4
    lengths = node.get(4)
    outputs: list[Value] = []
    finals: list[list[Value]] = []
    for number in range(count):
        own, inner = _row(weights, number), _row(recurrent, number)
        if multiply_of is None:
            product = matmul(data, _transpose(own))
            layer = _layer(node, node.block.bind(_transpose(inner)), matmul, gates, hidden, defaults, number)
        else:
            product = multiply_of(node, 1, number)(data, own)
            layer = _layer(node, inner, multiply_of(node, 2, number), gates, hidden, defaults, number)
        bias = None if node.get(3) is None else _row(node[3], number)
        inputs = _input_gates(product, bias, gates, hidden)
        initial = [
            _initial(node, index, data, hidden, number, by_batch) for index in ((5, 6) if is_lstm else (5,))
        ]
        backwards = direction == "reverse" or number == 1
        every, last = _run(node, cell, layer, inputs, initial, lengths, backwards=backwards)
        outputs.append(shapes.unsqueeze(every, [1]))
        finals.append([shapes.unsqueeze(value, [0]) for value in last])
    joined = op("concatenate", outputs, axis=1) if count > 1 else outputs[0]
    states = [
        op("concatenate", items, axis=0) if count > 1 else items[0]
        for items in map(list, zip(*finals, strict=True))
    ]
    if by_batch:
        joined = shapes.transpose(joined, [2, 0, 1, 3])
        states = [shapes.transpose(state, [1, 0, 2]) for state in states]
    return [joined, *states]


def _transpose(matrix: Value) -> Value:
    return constant(matrix.known.T) if matrix.known is not None else shapes.transpose(matrix, [1, 0])


def _row(value: Value, number: int) -> Value:
    return shapes.squeeze(shapes.slice_axis(value, 0, number, number + 1), [0])


def _layer(
    node: OnnxNode,
    recurrent: Value,
    multiply: Multiply,
    gates: int,
    hidden: int,
    defaults: Sequence[str],
    number: int,
) -> _Layer:
    names = node.attr("activations")
    defaults_count = len(defaults)
    own = (
        list(names)[number * defaults_count : (number + 1) * defaults_count]
        if isinstance(names, list) and names
        else list(defaults)
    )
    if len(own) != defaults_count:
        raise UnsupportedError(f"it needs {defaults_count} activations for each direction")
    alphas, betas = node.floats("activation_alpha"), node.floats("activation_beta")
    functions = [
        partial(
            _activate,
            name,
            pick(alphas, number * defaults_count + index),
            pick(betas, number * defaults_count + index),
        )
        for index, name in enumerate(own)
    ]
    bias = None
    if node.get(3) is not None:
        bias = shapes.slice_axis(_row(node[3], number), 0, gates * hidden, 2 * gates * hidden)
    peepholes = _row(node[7], number) if gates == 4 and node.get(7) is not None else None
    clip = node.number("clip") if node.attr("clip") is not None else None
    flag = bool(node.integer("input_forget" if gates == 4 else "linear_before_reset"))
    return _Layer(hidden, recurrent, bias, functions, peepholes, clip, flag, multiply)


def _activate(name: str, alpha: float | None, beta: float | None, x: Value) -> Value:
    return activation(name, x, alpha, beta)


def _input_gates(result: Value, bias: Value | None, gates: int, hidden: int) -> Value:
    """Add the biases to the inputs' part of the gates, of all steps: (steps, batch, gates * hidden)."""
    if bias is None:
        return result
    width = gates * hidden
    own, other = shapes.slice_axis(bias, 0, 0, width), shapes.slice_axis(bias, 0, width, 2 * width)
    if gates != 3:
        return result + (own + other)
    first = shapes.slice_axis(other, 0, 0, 2 * hidden)  # that of the candidate belongs to the recurrent part
    padded = op("nn.pad", first, other.like(0), pad_width=((0, hidden),))
    return result + (own + padded)


def _initial(node: OnnxNode, index: int, data: Value, hidden: int, number: int, by_batch: bool) -> Value:
    state = node.get(index)
    if state is None:
        shape: list[Dim] = [data.shape[1], hidden]
        return shapes.full(shape, constant(0, data.dtype), data)
    if by_batch:
        state = shapes.transpose(state, [1, 0, 2])
    return _row(state, number)


def _run(
    node: OnnxNode,
    cell: Cell,
    layer: _Layer,
    inputs: Value,
    initial: Sequence[Value],
    lengths: Value | None,
    *,
    backwards: bool,
) -> tuple[Value, list[Value]]:
    """Return the outputs of all steps, and the last states."""
    steps = inputs.shape[0]
    if backwards:
        inputs = _reverse(inputs, lengths)
    if isinstance(steps, int) and 0 < steps <= _UNROLLED_STEPS:
        every, last = _unroll(cell, layer, inputs, initial, lengths, int(steps))
    else:
        every, last = _loop(node, cell, layer, inputs, initial, lengths)
    return (_reverse(every, lengths) if backwards else every), last


def _reverse(value: Value, lengths: Value | None) -> Value:
    if lengths is None:
        return op("reverse", value, axis=0)
    return op("reverse_sequence", value, lengths, seq_axis=0, batch_axis=1)


def _step(
    cell: Cell, layer: _Layer, gates: Value, states: Sequence[Value], lengths: Value | None, step: Value
) -> tuple[Value, list[Value]]:
    """Return the output and the states after a step; a sequence that has ended keeps its states."""
    outcomes = zip(cell(gates, states, layer), states, strict=True)
    new = [
        after if after.shape == before.shape else with_shape(after, before.shape)
        for after, before in outcomes
    ]
    if lengths is None:
        return new[0], new
    running = shapes.unsqueeze(step.cast(lengths.dtype) < lengths, [1])
    return running.choose(new[0], new[0].like(0)), [
        running.choose(after, before) for after, before in zip(new, states, strict=True)
    ]


def _unroll(
    cell: Cell, layer: _Layer, inputs: Value, states: Sequence[Value], lengths: Value | None, steps: int
) -> tuple[Value, list[Value]]:
    outputs = []
    carried = list(states)
    for step in range(steps):
        output, carried = _step(cell, layer, _row(inputs, step), carried, lengths, constant(step, "int64"))
        outputs.append(shapes.unsqueeze(output, [0]))
    return (op("concatenate", outputs, axis=0) if steps > 1 else outputs[0]), carried


def _loop(
    node: OnnxNode, cell: Cell, layer: _Layer, inputs: Value, states: Sequence[Value], lengths: Value | None
) -> tuple[Value, list[Value]]:
    block = node.block
    bound = block.bind(inputs, "gates")
    lengths = None if lengths is None else block.bind(lengths, "lengths")
    layer = replace(
        layer,
        bias=None if layer.bias is None else block.bind(layer.bias),
        peepholes=None if layer.peepholes is None else block.bind(layer.peepholes),
    )
    limit = shapes.size_along(inputs, 0)
    shape = [inputs.shape[0], *states[0].shape]
    if shapes.is_static(states[0].shape):
        buffer = with_shape(buffer_of(limit, states[0].type), shape)
    else:
        buffer = shapes.full(shape, constant(0, states[0].dtype), inputs, states[0])

    def build(_block: OnnxBlock, step: Value, carried: Sequence[Value]) -> tuple[None, Sequence[Value]]:
        gates = op("take", bound, step, axis=0, mode="fast")
        output, after = _step(cell, layer, gates, carried[1:], lengths, step)
        return None, [write_row(carried[0], output, step), *after]

    end = emit_loop(block, [buffer, *states], limit, None, build)
    return end.carried[0], end.carried[1:]


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def _dynamic_quantize_lstm(node: OnnxNode) -> list[Value]:
    """Multiply integers: the data are quantized once, and the states in each step."""
    names = ("direction", "hidden_size", "activations", "activation_alpha", "activation_beta")
    only(node, *names, "clip", "input_forget")
    return _recurrent(node, _lstm_cell, 4, ["Sigmoid", "Tanh", "Tanh"], _quantized_multiply)


def _quantized_multiply(node: OnnxNode, index: int, number: int) -> Multiply:
    scale, zero = (_row(node[at], number) for at in (6 + 2 * index, 7 + 2 * index))

    def multiply(data: Value, weights: Value) -> Value:
        whole, data_scale, data_zero = quantize_dynamically(data)
        total = multiply_matrices(whole, data_zero, weights, zero, matmul)
        return total.cast("float32") * (data_scale * per_column(scale))

    return multiply


operators(
    {
        "GRU": lambda node: _recurrent(node, _gru_cell, 3, ["Sigmoid", "Tanh"]),
        "LSTM": lambda node: _recurrent(node, _lstm_cell, 4, ["Sigmoid", "Tanh", "Tanh"]),
        "RNN": lambda node: _recurrent(node, _rnn_cell, 1, ["Tanh"]),
    }
)
