"""Define recurrent networks by PyTorch's names, in the language itself: loops over time, and single steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.relay.types import Dim
from nnmagic.tinynn.builtins.argument_checks import choice_argument, flag, formula, require_float
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, cell_function
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.values import LoopCall, Operand, RefusalError, TupleOf, Value


@dataclass(frozen=True, slots=True)
class _Unit:
    """A kind of recurrent network: its number of gates, the names of its states, and the text of its step.

    The step computes the next states from what the input adds to the gates, ``x``, and what the first state
    adds to them, ``y``; ``{0}`` stands for the first gate of both. ``joins_biases``: whether both biases are
    added outside of the loop.
    """

    gates: int
    states: str
    step: Sequence[str]
    joins_biases: bool = True

    def lines(self, hidden: int, weights: Collection[str]) -> list[str]:
        """Return the statements of a step for states of a width."""
        bias = " + bias" if "b_hh" in weights and not self.joins_biases else ""
        gates = [f"[:, {hidden * gate}:{hidden * (gate + 1)}]" for gate in range(self.gates)]
        return [f"y = h @ recurrent{bias}", *(line.format(*gates) for line in self.step)]


#: An LSTM (Hochreiter and Schmidhuber 1997) with PyTorch's order of the gates: i, f, g, o.
_LSTM_STEP = (
    "s = x + y",
    "c = sigmoid(s{1}) * c + sigmoid(s{0}) * tanh(s{2})",
    "h = sigmoid(s{3}) * tanh(c)",
)

#: A GRU (Cho et al., arXiv:1406.1078) with PyTorch's order of the gates: r, z, n.
_GRU_STEP = (
    "r, z = sigmoid(x{0} + y{0}), sigmoid(x{1} + y{1})",
    "h = (1 - z) * tanh(x{2} + r * y{2}) + z * h",
)

_LSTM, _GRU = _Unit(4, "hc", _LSTM_STEP), _Unit(3, "h", _GRU_STEP, joins_biases=False)


def _kind_of_rnn(call: Arguments) -> _Unit:
    return _Unit(1, "h", (f"h = {choice_argument(call, 'nonlinearity', ('tanh', 'relu'), 'tanh')}(x + y)",))


#: The parameters of one direction of one layer.
_WEIGHTS = ("w_ih", "w_hh", "b_ih", "b_hh")


# -- weights -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Weights:
    """The weights of one direction of one layer, and the width of its states.

    ``texts``: what stands for each that is given, by the names of the parameters.
    """

    hidden: int
    texts: dict[str, str]

    def project(self, data: str, kind: _Unit) -> list[str]:
        """Return the statements that compute what the inputs add to the gates."""
        biases = [name for name in ("b_ih", "b_hh") if name in self.texts]
        added = [self.texts[name] for name in biases if name == "b_ih" or kind.joins_biases]
        lines = [f"recurrent = transpose({self.texts['w_hh']})"]
        if len(added) < len(biases):
            lines.append(f"bias = {self.texts['b_hh']}")
        inputs = f"{data} @ transpose({self.texts['w_ih']})"
        return [*lines, f"gates = {' + '.join([inputs, *added])}"]


def _weights_of(call: Arguments, kind: _Unit, number: int, count: int, data: Formula, width: Dim) -> _Weights:
    """Return the weights of one direction of one layer for data of a width. Raises RefusalError."""
    names = [name for name in _WEIGHTS if name in call]
    tensors = {name: _part(call, name, number, count) for name in names}
    recurrent = tensors["w_hh"]
    hidden = recurrent.shape[-1] if recurrent.rank == 2 else None
    if not isinstance(hidden, int):
        message = f"`w_hh` must be a matrix of a known size, not {describe(recurrent.value)}"
        raise call.refusal("w_hh", message)
    rows = kind.gates * hidden
    shapes = {"w_ih": (rows, width), "w_hh": (rows, hidden), "b_ih": (rows,), "b_hh": (rows,)}
    for name, tensor in tensors.items():
        shape = shapes[name]
        if tensor.rank != len(shape) or any(map(dims_differ, tensor.shape, shape)):
            wanted = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
            message = f"`{name}` must have the shape {wanted}, not {format_shape(tensor.shape)}"
            raise call.refusal(name, message)
        if tensor.dtype != data.dtype:
            dtypes = f"{dtype_short_name(tensor.dtype)}, the input of {dtype_short_name(data.dtype)}"
            raise call.refusal(name, f"`{name}` is of {dtypes}")
    is_tuple = {name: isinstance(call.given[name].value, TupleOf) for name in names}
    return _Weights(hidden, {name: f"{name}[{number}]" if is_tuple[name] else name for name in names})


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


def _states(call: Arguments, kind: _Unit, rank: int) -> list[Formula]:
    """Return the tensors of the argument ``hx``. Raises RefusalError."""
    operand = call.given["hx"]
    items = operand.value.items if isinstance(operand.value, TupleOf) else (operand.value,)
    if len(items) != len(kind.states):
        raise call.mismatch("hx", "a tuple (h, c)" if len(kind.states) == 2 else "one tensor")
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


def _begin(
    call: Arguments, kind: _Unit, hidden: int, data: Formula, number: str = "", *, batched: bool = True
) -> list[str]:
    """Return the statements that give the states their first values: those of ``hx``, or zeros.

    number: of the layer and direction, if there are several. Raises RefusalError.
    """
    if "hx" not in call:
        return [f"{state} = zeros((gates.shape[-2], {hidden}), dtype=gates.dtype)" for state in kind.states]
    wanted = (*(data.shape[-2:-1] if batched else ()), hidden)
    for state in _states(call, kind, len(wanted) + bool(number)):
        if any(map(dims_differ, state.shape[-len(wanted) :], wanted)) or state.dtype != data.dtype:
            message = f"{call.name}: a state of `hx` is {describe(state.value)}"
            shape = f"{format_shape(wanted)} of {dtype_short_name(data.dtype)}"
            raise RefusalError(f"{message}, and not {shape}", call.at("hx"))
    is_tuple, row = isinstance(call.given["hx"].value, TupleOf), "" if batched else "[None]"
    wholes = [f"hx[{place}]" if is_tuple else "hx" for place in range(len(kind.states))]
    return [f"{state} = {whole}{number}{row}" for state, whole in zip(kind.states, wholes, strict=True)]


def _network(call: Arguments, data: Formula, lines: Sequence[str]) -> Value:
    """Return the call of a function of the arguments, given by its statements."""
    names = [name for name in ("hx", *_WEIGHTS) if name in call]
    operands = (Operand(data.value, call.at("input")), *(call.given[name] for name in names))
    body = "".join(f"    {line}\n" for line in lines)
    return LoopCall("text", operands, text=f"def network({', '.join(['data', *names])}):\n{body}")


# -- loops over time -----------------------------------------------------------------------------------


def _run_layers(call: Arguments, kind: _Unit) -> Value:
    """Run all layers over time. Raises RefusalError."""
    data = formula(call, "input")
    require_float(call, data, "input")
    if data.rank not in (2, 3):
        message = f"{call.name} takes (time, batch, size) or (time, size), not {format_shape(data.shape)}"
        raise RefusalError(message, call.at("input"))
    batched, batch_first = data.rank == 3, flag(call, "batch_first")
    data = data.transpose([1, 0, 2]) if batched and batch_first else data
    weights = call.given["w_ih"].value
    count = len(weights.items) if isinstance(weights, TupleOf) else 1
    directions = 2 if flag(call, "bidirectional") else 1
    if count == 0 or count % directions:
        raise call.refusal("w_ih", f"`w_ih` has {count} tensors, and two directions need two for each layer")
    for state in _states(call, kind, 3 if batched else 2) if "hx" in call else ():
        if state.shape[0] != count:
            what = f"the first dimension of `hx` must be {count}, one for each layer and direction"
            raise call.refusal("hx", f"{what}, not of {format_shape(state.shape)}")
    lines, width = [] if batched else ["data = data[:, None]"], data.shape[-1]
    for number in range(count):
        own = _weights_of(call, kind, number, count, data, width)
        backwards = number % directions == 1
        rounds = "reversed(range(len(gates)))" if backwards else "range(len(gates))"
        out = f"out{number % directions}"
        lines += [
            *own.project("data", kind),
            *_begin(call, kind, own.hidden, data, f"[{number}]", batched=batched),
            f"{out} = zeros((len(gates), gates.shape[1], {own.hidden}), dtype=gates.dtype)",
            f"for t in {rounds}:",
            *(
                f"    {line}"
                for line in ("x = gates[t]", *kind.lines(own.hidden, own.texts), f"{out}[t] = h")
            ),
            *(f"{state}{number} = {state}" for state in kind.states),
        ]
        if backwards:
            lines.append("data = concatenate((out0, out1), axis=2)")
        elif directions == 1:
            lines.append("data = out0")
        if number % directions == directions - 1:
            width = directions * own.hidden
    numbers = range(count)
    last = [f"stack(({''.join(f'{state}{number}, ' for number in numbers)}))" for state in kind.states]
    if not batched:
        last = [f"{each}[:, 0]" for each in last]
    output = "data[:, 0]" if not batched else "transpose(data, (1, 0, 2))" if batch_first else "data"
    lines.append(f"return {output}, {_together(last)}")
    return _network(call, data, lines)


def _together(states: Sequence[str]) -> str:
    return states[0] if len(states) == 1 else f"({', '.join(states)})"


# -- single steps --------------------------------------------------------------------------------------


def _run_cell(call: Arguments, kind: _Unit) -> Value:
    """Compute one step. Raises RefusalError."""
    data = formula(call, "input")
    require_float(call, data, "input")
    if data.rank not in (1, 2):
        message = f"{call.name} takes (batch, size) or (size,), not {format_shape(data.shape)}"
        raise RefusalError(message, call.at("input"))
    weights, batched = _weights_of(call, kind, 0, 1, data, data.shape[-1]), data.rank == 2
    lines = [
        *weights.project("data" if batched else "data[None]", kind),
        *_begin(call, kind, weights.hidden, data, batched=batched),
        "x = gates",
        *kind.lines(weights.hidden, weights.texts),
        f"return {_together([state if batched else f'{state}[0]' for state in kind.states])}",
    ]
    return _network(call, data, lines)


_LAYERS = "input hx? w_ih w_hh b_ih? b_hh? * {}batch_first?=False bidirectional?=False"
_CELL = "input hx? w_ih w_hh b_ih? b_hh?{}"
_NONLINEARITY = "nonlinearity?='tanh'"

#: PyTorch's names of the arguments.
_NAMES = "x=input weight_ih=w_ih weight_hh=w_hh bias_ih=b_ih bias_hh=b_hh"

#: What finds the kind of a call, by names.
_KINDS: dict[str, Callable[[Arguments], _Unit]] = {
    "rnn": _kind_of_rnn,
    "lstm": lambda _call: _LSTM,
    "gru": lambda _call: _GRU,
}


def _function(name: str, signature: str, summary: str) -> Builtin:
    kind_of, run = _KINDS[name.removesuffix("_cell")], _run_cell if name.endswith("_cell") else _run_layers
    return cell_function(name, signature, lambda call: run(call, kind_of(call)), summary, aliases=_NAMES)


_OF_RNN = "Return (output, h) of tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)."

RECURRENT = (
    _function("rnn", _LAYERS.format(f"{_NONLINEARITY} "), _OF_RNN),
    _function("lstm", _LAYERS.format(""), "Return (output, (h, c)) of a long short-term memory."),
    _function("gru", _LAYERS.format(""), "Return (output, h) of gated recurrent units."),
    _function("rnn_cell", _CELL.format(f" * {_NONLINEARITY}"), "Return h after one step of `rnn`."),
    _function("lstm_cell", _CELL.format(""), "Return (h, c) after one step of `lstm`."),
    _function("gru_cell", _CELL.format(""), "Return h after one step of `gru`."),
)
