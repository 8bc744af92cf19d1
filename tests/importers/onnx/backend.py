"""The standard's own tests of ONNX (`onnx.backend.test`), run through `nnmagic.from_onnx`.

    python -m tests.importers.onnx.backend [PATTERN] [--jobs N]

runs all whose names match, each batch in a process of its own, and prints how many pass, are refused and why,
give a wrong result, or fail otherwise.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import nnmagic
from nnmagic.importers.onnx import OnnxError

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")

#: What is refused, by the names of tests, and what the error says.
REFUSED = {
    r"(FLOAT8|FLOAT4|U?INT[42]_|_U?INT[42])": r"are not supported",
    r"(float8|e4m3|e5m2|float4|(?<!r)u?int[42]$|_e8m0_)": r"are not supported",
    r"strnorm|string|regex_full|label_encoder_tensor": r"string",
    r"tfidf": r"TfIdfVectorizer: the operator is not supported",
    r"image_decoder": r"ImageDecoder: the operator is not supported",
    r"sequence|split_to_seq|if_seq|loop13_seq|loop16_seq": r"[Ss]equence|optional",
    r"if_opt|identity_opt|optional_(get|has)_element_": r"[Oo]ptional",
    r"bernoulli": r"(Bernoulli|RandomUniformLike): the operator is not supported",
    r"gradient_of": r"Gradient: the operator is not supported",
    r"affine_grid_.*_expanded": r"If: ",
}
#: Training with random numbers, which the call refuses: whether it trains is an input.
REFUSED_AT_CALL = r"training_dropout(_default|_mask)*$|training_dropout_default_mask$"
#: The standard's numbers have errors of rounding that ours have not, or others.
ROUNDED = {
    r"dft_inverse(_opset19)?$": "the judge has 1.9e-7 where 0 is exact",
    r"attention_4d_causal_fp16": "of the last digit of a float16",
}


class NnmagicBackend(Backend):
    """The backend that the standard's runner asks for."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_options: object) -> BackendRep:
        return _Prepared(nnmagic.from_onnx(model, cache=False))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


class _Prepared(BackendRep):
    def __init__(self, function: nnmagic.CompiledFunction) -> None:
        self.function = function

    def run(self, inputs: Sequence[object], **_options: object) -> tuple[object, ...]:
        result = self.function(*map(as_array, inputs))
        return result if isinstance(result, tuple) else (result,)


def as_array(value: object) -> object:
    """Some inputs and outputs are TensorProtos."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


@dataclass(frozen=True)
class Outcome:
    kind: str  # passed, refused, wrong or failed
    why: str = ""


@functools.cache
def cases() -> dict[str, object]:
    """All tests by name, with their kind in front."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {f"{kind}-{case.name}": case for kind in KINDS for case in load_model_tests(kind=kind)}


def data_of(case: object) -> tuple[onnx.ModelProto, list[tuple[list[object], list[object]]]]:
    """A test's model, and its pairs of inputs and outputs."""
    if case.model is not None:
        return case.model, case.data_sets
    if case.model_dir is None:  # a large network, whose output lies beside it
        path = Path(onnx.__file__).parents[1] / case.url
        model = onnx.load(path)
        output = _tensor(path.with_name(f"{path.stem}_output_0.pb"))
        return model, [([_ramp(info) for info in _inputs(model)], [output])]
    model = onnx.load(Path(case.model_dir) / "model.onnx")
    sets = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
        files = [[folder / f"{kind}_{i}.pb" for i in range(99)] for kind in ("input", "output")]
        sets.append(tuple([_tensor(path) for path in paths if path.exists()] for paths in files))
    return model, sets


def _inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    constants = {tensor.name for tensor in model.graph.initializer}
    return [info for info in model.graph.input if info.name not in constants]


def _ramp(info: onnx.ValueInfoProto) -> np.ndarray:
    shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
    return (np.arange(np.prod(shape)).reshape(shape) / np.prod(shape)).astype("float32")


def _tensor(path: Path) -> np.ndarray:
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def run(name: str) -> Outcome:
    """Run a test as the standard's runner does."""
    case = cases()[name]
    model, sets = data_of(case)
    try:
        prepared = NnmagicBackend.prepare(model)
        for inputs, outputs in sets:
            found = prepared.run(inputs)
            if case.model_dir is None and case.model is None:
                found = found[: len(outputs)]
            Runner.assert_similar_outputs(
                [as_array(each) for each in outputs], found, case.rtol, case.atol, case.model_dir
            )
    except OnnxError as error:
        return Outcome("refused", str(error))
    except AssertionError as error:
        if "is not supported" in str(error):
            return Outcome("refused", str(error))
        return Outcome("wrong", str(error))
    except Exception as error:  # noqa: BLE001 - it is reported
        return Outcome("failed", f"{type(error).__name__}: {error}")
    return Outcome("passed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pattern", nargs="?", default=".")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    names = [name for name in cases() if re.search(given.pattern, name)]
    with ProcessPoolExecutor(given.jobs, initializer=warnings.simplefilter, initargs=("ignore",)) as pool:
        outcomes = dict(zip(names, pool.map(run, names, chunksize=8), strict=True))
    counts = Counter((name.rpartition("-test_")[0], outcome.kind) for name, outcome in outcomes.items())
    for (kind, what), count in sorted(counts.items()):
        sys.stdout.write(f"{kind:20} {what:10} {count}\n")
    reasons = Counter(
        re.sub(r" \(.*", "", outcome.why.split("\n")[0])
        for outcome in outcomes.values()
        if outcome.kind == "refused"
    )
    for reason, count in reasons.most_common():
        sys.stdout.write(f"  refused {count:4}  {reason}\n")
    for name, outcome in outcomes.items():
        if outcome.kind in ("wrong", "failed"):
            sys.stdout.write(f"  {outcome.kind} {name}: {' '.join(outcome.why.split())[:200]}\n")


if __name__ == "__main__":
    main()
