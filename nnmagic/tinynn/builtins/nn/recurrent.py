"""Define recurrent networks by PyTorch's names: loops over time, and single steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.relay.types import TensorType, TupleType
from nnmagic.tinynn.builtins.argument_checks import choice_argument, flag, formula, require_float
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.operators.matmul import matrix_product
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.symbolic_sizes import number_of, size_along
from nnmagic.tinynn.values.values import Computed, Operand, RefusalError, TupleOf, Value

_INT64 = TensorType((), "int64")

#: The next states from the states, what the input adds to the gates, and what the first state adds to them.
_Step = Callable[[Sequence[Formula], Formula, Formula], list[Formula]]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of recurrent network: its number of gates and of states, and its step.

    ``joins_biases``: whether both biases are added outside of the loop.
    """

    gates: int
    states: int
    step: _Step
    joins_biases: bool = True


def _gates(values: Formula, number: int) -> list[Formula]:
    """Split the last axis into equal parts."""
    width = _static_width(values) // number
    axis = values.rank - 1
    cuts = [(width * index, width * (index + 1)) for index in range(number)]
    return [
        values.op("strided_slice", begin=[begin], end=[end], strides=[1], axes=[axis]) for begin, end in cuts
    ]


def _static_width(values: Formula) -> int:
    width = values.shape[-1]
    assert isinstance(width, int)
    return width


def _step_by(activation: str) -> _Step:
    def step(_states: Sequence[Formula], inputs: Formula, recurrent: Formula) -> list[Formula]:
        return [(inputs + recurrent).op(activation)]

    return step


def _step_lstm(states: Sequence[Formula], inputs: Formula, recurrent: Formula) -> list[Formula]:
    """Step an LSTM (Hochreiter and Schmidhuber 1997) with PyTorch's order of the gates: i, f, g, o."""
    _, cell = states
    into, forget, candidate, out = _gates(inputs + recurrent, 4)
    cell = forget.op("sigmoid") * cell + into.op("sigmoid") * candidate.op("tanh")
    return [out.op("sigmoid") * cell.op("tanh"), cell]


def _step_gru(states: Sequence[Formula], inputs: Formula, recurrent: Formula) -> list[Formula]:
    """Step a GRU (Cho et al., arXiv:1406.1078) with PyTorch's order of the gates: r, z, n."""
    (hidden,) = states
    input_gates, recurrent_gates = _gates(inputs, 3), _gates(recurrent, 3)
    reset, update = (
        (one + other).op("sigmoid") for one, other in zip(input_gates[:2], recurrent_gates[:2], strict=True)
    )
    candidate = (input_gates[2] + reset * recurrent_gates[2]).op("tanh")
    return [(1 - update) * candidate + update * hidden]


_LSTM, _GRU = _Kind(4, 2, _step_lstm), _Kind(3, 1, _step_gru, joins_biases=False)


def _kind_of_rnn(call: Arguments) -> _Kind:
    activation = choice_argument(call, "nonlinearity", ("tanh", "relu"), "tanh")
    return _Kind(1, 1, _step_by("tanh" if activation == "tanh" else "nn.relu"))


# -- weights -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Weights:
    """The weights of one direction of one layer; the matrices are transposed."""

    inputs: Formula
    recurrent: Formula
    input_bias: Formula | None
    recurrent_bias: Formula | None

    @property
    def hidden_size(self) -> int:
        """Return the width of the states."""
        rows = self.recurrent.shape[0]
        assert isinstance(rows, int)
        return rows

    def project(self, data: Formula, kind: _Kind) -> Formula:
        """Return what the inputs add to the gates."""
        result = _product(data, self.inputs)
        biases = (self.input_bias, self.recurrent_bias if kind.joins_biases else None)
        for bias in biases:
            result = result if bias is None else result + bias
        return result

    def step(self, states: Sequence[Formula], inputs: Formula, kind: _Kind) -> list[Formula]:
        """Return the next states."""
        recurrent = _product(states[0], self.recurrent)
        if self.recurrent_bias is not None and not kind.joins_biases:
            recurrent = recurrent + self.recurrent_bias
        return kind.step(states, inputs, recurrent)


def _product(data: Formula, weight: Formula) -> Formula:
    left, right = Operand(data.value, data.span), Operand(weight.value, data.span)
    return Formula(matrix_product(left, right, data.span), data.span)


def _weights_of(call: Arguments, kind: _Kind, number: int, count: int, data: Formula) -> _Weights:
    """Return the weights of one direction of one layer for its data. Raises RefusalError."""
    tensors = [
        _part(call, name, number, count) if name in call else None
        for name in ("w_ih", "w_hh", "b_ih", "b_hh")
    ]
    inputs, recurrent, *biases = tensors
    assert inputs is not None
    assert recurrent is not None
    hidden = recurrent.shape[-1] if recurrent.rank == 2 else None
    if not isinstance(hidden, int):
        message = f"`w_hh` must be a matrix of a known size, not {describe(recurrent.value)}"
        raise call.refusal("w_hh", message)
    rows = kind.gates * hidden
    shapes = {"w_ih": (rows, data.shape[-1]), "w_hh": (rows, hidden), "b_ih": (rows,), "b_hh": (rows,)}
    for (name, shape), tensor in zip(shapes.items(), tensors, strict=True):
        if tensor is None:
            continue
        if tensor.rank != len(shape) or any(map(dims_differ, tensor.shape, shape)):
            wanted = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
            message = f"`{name}` must have the shape {wanted}, not {format_shape(tensor.shape)}"
            raise call.refusal(name, message)
        if tensor.dtype != data.dtype:
            dtypes = f"{dtype_short_name(tensor.dtype)}, the input of {dtype_short_name(data.dtype)}"
            raise call.refusal(name, f"`{name}` is of {dtypes}")
    return _Weights(inputs.transpose([1, 0]), recurrent.transpose([1, 0]), *biases)


def _part(call: Arguments, name: str, number: int, count: int) -> Formula:
    """Return the tensor of one direction of one layer: an item of a tuple, or the argument itself."""
    operand = call.given[name]
    if not isinstance(operand.value, TupleOf):
        if count > 1:
            message = f"{call.name}: `{name}` must be {count} tensors, one for each layer and direction"
            raise RefusalError(message, operand.span, hint="give a tuple or a list")
        return formula(call, name)
    if len(operand.value.items) != count:
        message = f"{call.name}: `{name}` has {len(operand.value.items)} tensors, `w_ih` {count}"
        raise RefusalError(message, operand.span)
    item = Operand(operand.value.items[number], operand.span)
    return formula(replace(call, given={**call.given, name: item}), name)


# -- loops over time -----------------------------------------------------------------------------------


def _recurrent(kind_of: Callable[[Arguments], _Kind]) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        return _run_layers(call, kind_of(call))

    return apply_to


def _run_layers(call: Arguments, kind: _Kind) -> Value:
    """Run all layers over time. Raises RefusalError."""
    data = formula(call, "input")
    require_float(call, data, "input")
    if data.rank not in (2, 3):
        message = f"{call.name} takes (time, batch, size) or (time, size), not {format_shape(data.shape)}"
        raise RefusalError(message, call.at("input"))
    batched, batch_first = data.rank == 3, flag(call, "batch_first")
    if not batched:
        data = data.expand(1)
    elif batch_first:
        data = data.transpose([1, 0, 2])
    weights = call.given["w_ih"].value
    count = len(weights.items) if isinstance(weights, TupleOf) else 1
    directions = 2 if flag(call, "bidirectional") else 1
    if count == 0 or count % directions:
        raise call.refusal("w_ih", f"`w_ih` has {count} tensors, and two directions need two for each layer")
    given = _initial_states(call, kind, count, batched=batched)
    last: list[list[Formula]] = [[] for _ in range(kind.states)]
    for layer in range(count // directions):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            layer_weights = _weights_of(call, kind, number, count, data)
            _check_states(call, given[number], layer_weights, data)
            output, states = _run_layer(data, layer_weights, kind, given[number], backwards=direction == 1)
            outputs.append(output)
            for parts, state in zip(last, states, strict=True):
                parts.append(state)
        data = outputs[0] if directions == 1 else _join("concatenate", outputs, 2)
    stacked = [_join("stack", parts, 0) for parts in last]
    if not batched:
        data = data.op("squeeze", axis=[1])
        stacked = [state.op("squeeze", axis=[1]) for state in stacked]
    elif batch_first:
        data = data.transpose([1, 0, 2])
    return TupleOf((data.value, _states_value(stacked)))


def _states_value(states: Sequence[Formula]) -> Value:
    return states[0].value if len(states) == 1 else TupleOf(tuple(state.value for state in states))


def _join(name: str, parts: Sequence[Formula], axis: int) -> Formula:
    if name == "stack" and len(parts) == 1:
        return parts[0].expand(axis)
    whole = Computed(
        ir.Tuple(tuple(part.value.expr for part in parts), span=parts[0].span),
        TupleType(tuple(part.type for part in parts)),
    )
    return Formula(apply(name, parts[0].span, whole, axis=axis), parts[0].span)


def _initial_states(call: Arguments, kind: _Kind, count: int, *, batched: bool) -> list[list[Formula] | None]:
    """Return the states that each direction of each layer begins with; None for zeros."""
    if "hx" not in call:
        return [None] * count
    wholes = [state if batched else state.expand(1) for state in _states(call, kind, 3 if batched else 2)]
    for whole in wholes:
        if whole.shape[0] != count:
            message = (
                f"{call.name}: the first dimension of `hx` must be {count}, one for each layer and direction"
            )
            raise RefusalError(f"{message}, not of {format_shape(whole.shape)}", call.at("hx"))
    return [
        [
            whole.op("strided_slice", begin=[number], end=[number + 1], strides=[1], axes=[0]).op(
                "squeeze", axis=[0]
            )
            for whole in wholes
        ]
        for number in range(count)
    ]


def _states(call: Arguments, kind: _Kind, rank: int) -> list[Formula]:
    """Return the tensors of the argument ``hx``. Raises RefusalError."""
    operand = call.given["hx"]
    items = operand.value.items if isinstance(operand.value, TupleOf) else (operand.value,)
    if len(items) != kind.states:
        wanted = "a tuple (h, c)" if kind.states == 2 else "one tensor"
        raise RefusalError(f"{call.name}: `hx` must be {wanted}, not {describe(operand.value)}", operand.span)
    states = []
    for item in items:
        part = replace(call, given={**call.given, "hx": Operand(item, operand.span)})
        states.append(formula(part, "hx"))
        if states[-1].rank != rank:
            shape = format_shape(states[-1].shape)
            raise RefusalError(
                f"{call.name}: `hx` must be of rank {rank}, not of shape {shape}", operand.span
            )
    return states


def _check_states(
    call: Arguments, states: Sequence[Formula] | None, weights: _Weights, data: Formula
) -> None:
    """Refuse states that do not fit the weights, or the batch of the data."""
    wanted = (data.shape[-2], weights.hidden_size)
    for state in states or ():
        if any(map(dims_differ, state.shape[-2:], wanted)) or state.dtype != data.dtype:
            message = f"{call.name}: a state of `hx` is {describe(state.value)}"
            shape = f"{format_shape(wanted)} of {dtype_short_name(data.dtype)}"
            raise RefusalError(f"{message}, and not {shape}", call.at("hx"))


class _Lets:
    """Let bindings around a value."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self._bindings: list[tuple[ir.Var, ir.Expr]] = []

    def bind(self, name: str, value: Formula) -> Formula:
        """Bind a tensor, so that it is computed here."""
        if isinstance(value.value.expr, ir.Var | ir.Constant):
            return value
        variable = ir.Var(name, span=self.span)
        self.bind_expr(variable, value.value.expr)
        return Formula(Computed(variable, value.type), self.span)

    def bind_expr(self, variable: ir.Var, value: ir.Expr) -> None:
        """Bind an expression to a variable."""
        self._bindings.append((variable, value))

    def around(self, body: ir.Expr) -> ir.Expr:
        """Return the body inside the bindings."""
        for variable, value in reversed(self._bindings):
            body = ir.Let(variable, value, body, span=self.span)
        return body


def _run_layer(
    data: Formula, weights: _Weights, kind: _Kind, given: Sequence[Formula] | None, *, backwards: bool
) -> tuple[Formula, list[Formula]]:
    """Return the outputs (time, batch, hidden) and the last states of one direction of one layer.

    What the inputs add to the gates is one product, before the loop.
    """
    span = data.span
    lets = _Lets(span)
    gates = lets.bind("gates", weights.project(data, kind))
    recurrent = lets.bind("recurrent", weights.recurrent)
    bias = weights.recurrent_bias
    weights = replace(
        weights, recurrent=recurrent, recurrent_bias=None if bias is None else lets.bind("bias", bias)
    )
    # The values of this have no meaning: each round fills one row.
    outputs = gates.op("strided_slice", begin=[0], end=[weights.hidden_size], strides=[1], axes=[2])
    if given is None:
        given = [outputs.reduce("sum", [0]).op("zeros_like")] * kind.states
    length = lets.bind("length", _length(gates))
    step, loop = ir.Var("step", _INT64, span=span), ir.Var("time_loop", span=span)
    start = [outputs, *given]
    params = [
        ir.Var(name, value.type, span=span)
        for name, value in zip(("outputs", "hidden", "cell"), start, strict=False)
    ]
    counter = Formula(Computed(step, _INT64), span)
    filled, *states = [
        Formula(Computed(param, value.type), span) for param, value in zip(params, start, strict=True)
    ]
    time = length - 1 - counter if backwards else counter
    following = weights.step(states, gates.op("take", time, axis=0), kind)
    filled = filled.op("scatter_nd", time.expand(0), following[0], mode="update")
    again = ir.Call(loop, tuple(value.value.expr for value in (counter + 1, filled, *following)), span=span)
    result = TupleType(tuple(value.type for value in start))
    condition = counter.op("less", length).value.expr
    body = ir.If(condition, again, ir.Tuple(tuple(params), span=span), span=span)
    lets.bind_expr(loop, ir.Function((step, *params), body, result, span=span))
    first = (ir.constant(0, "int64", span=span), *(value.value.expr for value in start))
    states_after = ir.Var("states", span=span)
    lets.bind_expr(states_after, ir.Call(loop, first, span=span))
    whole = lets.around(states_after)
    output, *last = [
        Formula(Computed(ir.TupleGetItem(whole, index, span=span), value.type), span)
        for index, value in enumerate(start)
    ]
    return output, last


def _length(gates: Formula) -> Formula:
    """Return the number of rounds."""
    return Formula(number_of(size_along(gates.value, 0, gates.span), gates.span), gates.span)


# -- single steps --------------------------------------------------------------------------------------


def _cell(kind_of: Callable[[Arguments], _Kind]) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        return _run_cell(call, kind_of(call))

    return apply_to


def _run_cell(call: Arguments, kind: _Kind) -> Value:
    """Compute one step. Raises RefusalError."""
    data = formula(call, "input")
    require_float(call, data, "input")
    if data.rank not in (1, 2):
        message = f"{call.name} takes (batch, size) or (size,), not {format_shape(data.shape)}"
        raise RefusalError(message, call.at("input"))
    batched = data.rank == 2
    data = data if batched else data.expand(0)
    weights = _weights_of(call, kind, 0, 1, data)
    inputs = weights.project(data, kind)
    if "hx" in call:
        states = _states(call, kind, 2 if batched else 1)
        states = states if batched else [state.expand(0) for state in states]
        _check_states(call, states, weights, data)
    else:
        hidden = inputs.op("strided_slice", begin=[0], end=[weights.hidden_size], strides=[1], axes=[1])
        states = [hidden.op("zeros_like")] * kind.states
    following = weights.step(states, inputs, kind)
    return _states_value(following if batched else [state.op("squeeze", axis=[0]) for state in following])


_LAYERS = "input hx? w_ih w_hh b_ih? b_hh? * {}batch_first?=False bidirectional?=False"
_CELL = "input hx? w_ih w_hh b_ih? b_hh?"
_NONLINEARITY = "nonlinearity?='tanh' "


def _layers(name: str, kind_of: Callable[[Arguments], _Kind], summary: str, more: str = "") -> Builtin:
    return Builtin(
        name, _LAYERS.format(more), _recurrent(kind_of), summary, aliases=_NAMES, method=False, has_loops=True
    )


#: PyTorch's names of the arguments.
_NAMES = "x=input weight_ih=w_ih weight_hh=w_hh bias_ih=b_ih bias_hh=b_hh"

RECURRENT = (
    _layers(
        "rnn",
        _kind_of_rnn,
        "Return (output, h) of tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh).",
        _NONLINEARITY,
    ),
    _layers("lstm", lambda _call: _LSTM, "Return (output, (h, c)) of a long short-term memory."),
    _layers("gru", lambda _call: _GRU, "Return (output, h) of gated recurrent units."),
    Builtin(
        "rnn_cell",
        f"{_CELL} * {_NONLINEARITY}".rstrip(),
        _cell(_kind_of_rnn),
        "Return h after one step of `rnn`.",
        aliases=_NAMES,
        method=False,
    ),
    Builtin(
        "lstm_cell",
        _CELL,
        _cell(lambda _call: _LSTM),
        "Return (h, c) after one step of `lstm`.",
        aliases=_NAMES,
        method=False,
    ),
    Builtin(
        "gru_cell",
        _CELL,
        _cell(lambda _call: _GRU),
        "Return h after one step of `gru`.",
        aliases=_NAMES,
        method=False,
    ),
)
