"""Random calls of Relay's quantized operators, by seed, and the records of their inputs.

What real Relay leaves undefined is left out: products that int32 cannot hold, floats that no integer can.
``python -m tests.oracle.quantized PYTHON`` (an interpreter that has real Relay) prints the lines of
tests/relay_corpus/qnn.jsonl: what real Relay makes of the programs of the first seeds, of those it can build.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from nnmagic.relay.expr import Call, Constant, Expr, Function, Tuple, Var, constant
from nnmagic.relay.module import Module
from nnmagic.relay.ops.calls import call
from nnmagic.relay.types import TensorType

T = TypeVar("T")
BYTES = ("int8", "uint8")
UNARY = ("tanh", "exp", "sqrt", "rsqrt", "erf", "sigmoid", "hardswish", "log", "abs")
#: Real Relay's accumulators are of this size; larger ones leave int32 on the way.
ACCUMULATOR = 70_000


@dataclass
class Generator:
    """One call and what it takes."""

    rng: np.random.Generator
    params: list[Var] = field(default_factory=list)
    inputs: list[dict[str, object]] = field(default_factory=list)

    def one_of(self, *choices: T) -> T:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def data(self, shape: Sequence[int], dtype: str, limit: int | None = None) -> Var:
        """A parameter; its elements are any of the dtype, or not beyond the limit."""
        low, high = (-limit, limit) if limit else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        seed = int(self.rng.integers(1 << 16))
        self.inputs.append(
            {
                "shape": list(shape),
                "dtype": dtype,
                "dist": "randint",
                "seed": seed,
                "lo": int(low),
                "hi": int(high) + 1,
            }
        )
        self.params.append(Var(f"x{len(self.params)}", TensorType(tuple(shape), dtype)))
        return self.params[-1]

    def scale(self, channels: int | None = None, low: float = -4, high: float = 0) -> Constant:
        """Of six digits, so that it survives printing; often a power of 2."""

        def one() -> float:
            if self.chance(0.3):
                return float(2.0 ** self.rng.integers(-4, 1))
            return float(f"{2 ** self.rng.uniform(low, high):.5g}")

        return constant(one() if channels is None else [one() for _ in range(channels)], "float32")

    def zero(self, dtype: str, channels: int | None = None) -> Constant:
        low, high = (0, 255) if dtype.startswith("uint") else (-128, 127)
        if channels is not None:
            return constant(self.rng.integers(low, high + 1, channels), "int32")
        return constant(0 if self.chance(0.3) else int(self.rng.integers(low, high + 1)), "int32")

    def both(self, dtype: str, low: float = -6) -> list[Constant]:
        """The scale and zero point of the data, and of the result."""
        return [self.scale(None, low, -1), self.zero(dtype), self.scale(None, -7), self.zero(dtype)]

    def requantize(self) -> Call:
        shape = self.one_of((2, 3, 4), (4, 5), (7,), (2, 3, 2, 2))
        dtype = self.one_of("int8", "uint8", "int16", "int32", "int32", "int64")
        axis = int(self.rng.integers(-len(shape), len(shape)))
        channels = shape[axis] if self.chance(0.5) else None
        # Real Relay cannot build a zero point for each channel of any axis but the last.
        last = axis in (-1, len(shape) - 1)
        attrs: dict[str, object] = {"axis": axis, "out_dtype": self.one_of("int8", "uint8", "int16", "int32")}
        if self.chance(0.6):
            attrs["rounding"] = self.one_of("UPWARD", "TONEAREST")
        if self.chance(0.5):
            attrs["compute_dtype"] = self.one_of("int64", "float32", "float64")
        wide = dtype in ("int32", "int64") and (
            attrs.get("compute_dtype", "int64") != "int64" or self.chance(0.7)
        )
        return call(
            "qnn.requantize",
            [
                self.data(shape, dtype, ACCUMULATOR if wide else None),
                self.scale(channels, -6, 1),
                self.zero(dtype, channels if last and self.chance(0.5) else None),
                self.scale(None, -4, 2),
                self.zero(str(attrs["out_dtype"])),
            ],
            **attrs,
        )

    def arithmetic(self) -> Call:
        name = self.one_of("add", "subtract", "mul")
        shape = self.one_of((2, 3, 4), (4, 5), (7,))
        other = self.one_of(shape, shape, shape[-1:], (1,) * len(shape))
        dtype = self.one_of("int8", "uint8", "int8", "uint8", "int16", "int32")
        limit = 3000 if dtype == "int32" else None
        axis = int(self.rng.integers(-len(shape), len(shape)))
        channels = shape[axis] if other == shape and self.chance(0.4) else None
        # Real Relay reads beyond its factors where only one side of a product has a scale a channel.
        second = channels if name == "mul" or self.chance(0.5) else None
        lhs = [self.scale(channels), self.zero(dtype, channels if self.chance(0.5) else None)]
        rhs = lhs if self.chance(0.2) else [self.scale(second), self.zero(dtype)]
        output = lhs if channels is None and self.chance(0.2) else [self.scale(), self.zero(dtype)]
        axes = {} if channels is None else {"lhs_axis": axis, "rhs_axis": axis}
        data = [self.data(each, dtype, limit) for each in (shape, other)]
        return call(f"qnn.{name}", [*data, *lhs, *rhs, *output], **axes)

    def weight_arguments(self, data: Var, weight: Var, channels: int) -> list[Expr]:
        """The arguments of a product with a weight."""
        dtypes = [str(var.type_annotation.dtype) for var in (data, weight)]  # type: ignore[union-attr]  # tensors
        one_each = channels if self.chance(0.3) else None
        zeros = [self.zero(dtypes[0]), self.zero(dtypes[1], one_each)]
        return [data, weight, *zeros, self.scale(), self.scale(channels if self.chance(0.3) else None)]

    def dense(self) -> Call:
        shape = self.one_of((2, 3), (3, 17))
        data = self.data(shape, self.one_of("int8", "uint8", "int16", "uint16"))
        weight = self.data((5, shape[-1]), self.one_of(*BYTES))
        args = self.weight_arguments(data, weight, 5)
        return call("qnn.dense", args, units=5, out_dtype=self.one_of("int32", "int32", "int64"))

    def batch_matmul(self) -> Call:
        dtypes = self.one_of(*BYTES), self.one_of(*BYTES)
        batch = self.one_of(1, 2)
        data = [self.data((batch, 3, 4), dtypes[0]), self.data((batch, 5, 4), dtypes[1])]
        zeros = [self.zero(dtype) for dtype in dtypes]
        return call("qnn.batch_matmul", [*data, *zeros, self.scale(), self.scale()], transpose_b=True)

    def conv2d(self) -> Call:
        depthwise = self.chance(0.3)
        groups, channels = (4, 4) if depthwise else (self.one_of(1, 1, 2), self.one_of(2, 4, 6))
        kernel = self.one_of((1, 1), (3, 3), (3, 2))
        layout, kernel_layout = self.one_of(("NCHW", "OIHW"), ("NHWC", "HWOI" if depthwise else "HWIO"))
        sizes = {"N": 1, "C": 4, "H": 6, "W": 7}
        kernel_sizes = {"O": channels, "I": 4 // groups, "H": kernel[0], "W": kernel[1]}
        data = self.data([sizes[axis] for axis in layout], self.one_of(*BYTES, *BYTES, "int16"))
        weight = self.data(
            [kernel_sizes[axis] for axis in kernel_layout], self.one_of(*BYTES, *BYTES, "int16")
        )
        return call(
            "qnn.conv2d",
            self.weight_arguments(data, weight, channels),
            kernel_size=kernel,
            channels=channels,
            strides=self.one_of((1, 1), (2, 1), (2, 2)),
            padding=self.one_of((0, 0), (1, 1), (0, 1, 1, 2)),
            dilation=self.one_of((1, 1), (1, 1), (2, 2)),
            groups=groups,
            data_layout=layout,
            kernel_layout=kernel_layout,
            out_dtype=self.one_of("int32", "int32", "int32", "int16", "int64"),
        )

    def conv2d_transpose(self) -> Call:
        channels, kernel = self.one_of(2, 4), self.one_of((2, 2), (3, 3))
        layout = self.one_of("NCHW", "NCHW", "NHWC")
        sizes = {"N": 1, "C": 3, "H": 4, "W": 5}
        data = self.data([sizes[axis] for axis in layout], self.one_of(*BYTES))
        weight = self.data((3, channels, *kernel), self.one_of(*BYTES))
        return call(
            "qnn.conv2d_transpose",
            self.weight_arguments(data, weight, channels),
            kernel_size=kernel,
            channels=channels,
            strides=self.one_of((1, 1), (2, 2)),
            padding=self.one_of((0, 0), (1, 1)),
            data_layout=layout,
        )

    def concatenate(self) -> Call:
        dtype = self.one_of(*BYTES, "int32")
        parts = [
            self.data((2, 3), dtype, 3000 if dtype == "int32" else None) for _ in range(self.one_of(2, 3))
        ]
        scales = Tuple(tuple(self.scale() for _ in parts))
        zeros = Tuple(tuple(self.zero(dtype) for _ in parts))
        args = [Tuple(tuple(parts)), scales, zeros, self.scale(), self.zero(dtype)]
        return call("qnn.concatenate", args, axis=self.one_of(0, 1, -1))

    def unary(self) -> Call:
        dtype = self.one_of(*BYTES)
        return call(f"qnn.{self.one_of(*UNARY)}", [self.data((150,), dtype), *self.both(dtype)])

    def softmax(self) -> Call:
        shape = self.one_of((3, 8), (2, 3, 4))
        axis = int(self.rng.integers(-len(shape), len(shape)))
        return call("qnn.softmax", [self.data(shape, "int8"), *self.both("int8", -8)], axis=axis)

    def leaky_relu(self) -> Call:
        dtype = self.one_of(*BYTES)
        alpha = self.one_of(0.1, 0.01, 0.25, 0.5, 0.9, 1.5)
        return call("qnn.leaky_relu", [self.data((3, 20), dtype), *self.both(dtype)], alpha=alpha)

    def avg_pool2d(self) -> Call:
        dtype = self.one_of(*BYTES)
        return call(
            "qnn.avg_pool2d",
            [self.data((1, 6, 6, 3), dtype), *self.both(dtype)],
            pool_size=self.one_of((2, 2), (3, 2)),
            strides=self.one_of((1, 1), (2, 2)),
            padding=self.one_of((0, 0), (1, 1)),
            layout="NHWC",
            ceil_mode=self.chance(0.3),
            count_include_pad=self.chance(0.4),
        )

    def simulate(self) -> Call:
        name = self.one_of("qnn.simulated_quantize", "qnn.simulated_dequantize")
        data = call("cast", [self.data((3, 4), "int32", 300)], dtype="float32")
        data = call("divide", [data, constant(4.0)])
        scale, zero = self.scale(self.one_of(1, 4)), self.zero("int8", self.one_of(1, 4))
        return call(
            name, [data, constant(self.one_of(0, 1, 2, 3), "int32"), scale, zero], axis=self.one_of(-1, 1)
        )


#: What a seed may become; an entry's index and number fix which seeds become it.
KINDS: tuple[Callable[[Generator], Call], ...] = (
    *(Generator.requantize,) * 4,
    *(Generator.arithmetic,) * 4,
    *(Generator.conv2d,) * 3,
    Generator.dense,
    Generator.batch_matmul,
    Generator.conv2d_transpose,
    Generator.concatenate,
    *(Generator.unary,) * 2,
    Generator.softmax,
    Generator.leaky_relu,
    Generator.avg_pool2d,
    Generator.simulate,
)


def generate(seed: int) -> tuple[Module, list[dict[str, object]]]:
    """The program of a seed, and the records of its inputs as tests/engine/programs.py draws them."""
    maker = Generator(np.random.default_rng([seed, 7]))
    body = KINDS[seed % len(KINDS)](maker)
    return Module({"main": Function(tuple(maker.params), body)}), maker.inputs


def measure(python: str, seeds: range) -> None:
    """Prints a line of JSON for each program: its text, real Relay's typed text, inputs and output."""
    from tests.engine.programs import make_input
    from tests.oracle.judge import Judge

    judge = Judge(python)
    for seed in seeds:
        module, records = generate(seed)
        text = module.astext()
        reply = judge.ask(text, [make_input(record) for record in records])
        if "outputs" not in reply:
            continue  # real Relay cannot build it
        (output,) = reply["outputs"]
        measured = {"shape": output.shape, "dtype": output.dtype.name, "data": output.ravel().tolist()}
        typed = reply["typed"].split("\n#[metadata]")[0].split("\n/* For debugging")[0]
        line = {"seed": seed, "text": text, "typed": typed, "inputs": records, "output": measured}
        sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")
    judge.close()


if __name__ == "__main__":
    measure(sys.argv[1], range(126))
