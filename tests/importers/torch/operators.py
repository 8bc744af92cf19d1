"""Run samples of torch's own operator tests (OpInfo) through the importer, and count what passes.

``python -m tests.importers.torch.operators [--samples N] [--part I/N] [name ...]`` prints each function as it
ends, then how many pass, and how many of core ATen's operators, which are met in the functions' decomposed
graphs. ``--json FILE`` keeps the outcomes of a part, ``--report FILE ...`` prints the table of several parts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from nnmagic.functions.compile import compile as compile_module
from nnmagic.importers.torch import TorchError
from nnmagic.importers.torch.convention import call_program
from nnmagic.importers.torch.programs import import_program

#: Functions whose results nobody can compare: random, uninitialized, or of the moment.
_RANDOM = (
    *("rand", "dropout", "bernoulli", "multinomial", "normal", "empty", "exponential", "geometric", "cauchy"),
    *("log_normal", "uniform", "new_empty", "rrelu"),
)
#: The statuses of samples that torch itself does not run, or not capture.
_NOBODY_CAN = frozenset(("not exported", "not run"))
#: Functions whose results have any sign: eigenvectors and singular vectors.
_ANY_SIGN = frozenset(("linalg.eigh", "linalg.svd", "svd"))
#: The functions that one process runs.
_CHUNK = 24


@dataclass
class Outcome:
    """What became of a sample."""

    name: str
    sample: int
    status: str  # passes, refused, wrong, error; or what torch cannot do: not exported, not run
    reason: str
    operators: list[str]


class _Sample(torch.nn.Module):
    """A call of a function whose tensors are the module's arguments."""

    def __init__(self, function: Any, spec: Any, leaves: Sequence[Any]) -> None:
        super().__init__()
        self.function, self.spec, self.leaves = function, spec, list(leaves)

    def forward(self, *tensors: Any) -> Any:
        given = iter(tensors)
        leaves = [next(given) if leaf is None else leaf[0] for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.function(*args, **kwargs)


def functions() -> list[str]:
    """The names of OpInfo's functions, those with random results left out."""
    names = dict.fromkeys(
        f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name for info in op_db
    )
    return [name for name in names if not any(word in name for word in _RANDOM)]


def samples(name: str, count: int, wanted: str = "float32") -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """Modules, arguments and expected results of the first samples of a function, spread over all it has."""
    full = {
        (f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name): info
        for info in reversed(op_db)
    }[name]
    dtypes = full.supported_dtypes("cpu")
    dtype = getattr(torch, wanted)
    if dtype not in dtypes:
        if not dtypes or wanted != "float32":
            return
        dtype = min(dtypes, key=str)
    found = list(full.sample_inputs("cpu", dtype, requires_grad=False))
    step = max(1, len(found) // count)
    for sample in found[::step][:count]:
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        marks = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        yield _Sample(full.op, spec, marks), tensors, found


def run_sample(
    module: torch.nn.Module, tensors: Sequence[torch.Tensor], *, any_sign: bool = False
) -> tuple[str, str, list[str]]:
    """Import, compile and run a sample; return its status, the reason and the operators of its graph."""
    clones = [tensor.clone() for tensor in tensors]
    try:
        with torch.no_grad():
            expected = module(*[tensor.clone() for tensor in tensors])
    except Exception as error:
        return "not run", f"{type(error).__name__}: {error}"[:200], []
    try:
        program = torch.export.export(module, tuple(clones), strict=False)
        program = program.run_decompositions(torch.export.default_decompositions())
    except Exception as error:
        return "not exported", f"{type(error).__name__}: {error}"[:200], []
    met = sorted(
        {
            str(node.target.overloadpacket).removeprefix("aten.")
            for node in program.graph.nodes
            if node.op == "call_function" and hasattr(node.target, "overloadpacket")
        }
    )
    try:
        imported = import_program(program)
    except TorchError as error:
        return "refused", str(error.diagnostics[0].message)[:200], met
    function = compile_module(imported.module, cache=False, opt_level=0)
    try:
        with torch.no_grad():
            actual = call_program(imported, function, tuple(tensor.clone() for tensor in tensors), {})
    except Exception:
        problem = _problem_of_torch(program, tensors)
        if problem is None:
            raise
        return "not run", problem, met
    if any_sign:
        actual, expected = (pytree.tree_map(torch.abs, result) for result in (actual, expected))
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=False, rtol=1e-4, atol=1e-5)
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())[:300], met
    return "passes", "", met


def _problem_of_torch(program: torch.export.ExportedProgram, tensors: Sequence[torch.Tensor]) -> str | None:
    """Return the error that torch itself raises for what it captured; None if it raises none."""
    try:
        program.module()(*[tensor.clone() for tensor in tensors])
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return None


def run(name: str, count: int, dtype: str = "float32") -> Iterator[Outcome]:
    """Run the samples of a function."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, (module, tensors, _) in enumerate(samples(name, count, dtype)):
            try:
                status, reason, met = run_sample(module, tensors, any_sign=name in _ANY_SIGN)
            except Exception as error:
                status, reason, met = "error", f"{type(error).__name__}: {error}"[:300], []
            yield Outcome(name, number, status, reason, met)


def core_operators() -> set[str]:
    """The names of core ATen's operators without overloads; those of sizes and of random numbers left out."""
    names = set()
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in getattr(packet, "overloads", list)():
            if torch.Tag.core in getattr(packet, overload).tags:
                names.add(name)
    return {
        name for name in names if not name.startswith("sym_") and not any(word in name for word in _RANDOM)
    }


def table(outcomes: Sequence[Outcome]) -> str:
    """What passed, what did not, and which core operators are imported."""
    lines = [f"samples: {dict(Counter(item.status for item in outcomes))}"]
    by_name = defaultdict(set)
    for item in outcomes:
        by_name[item.name].add(item.status)
    exported = {name: found for name, found in by_name.items() if not found <= _NOBODY_CAN}
    passing = [name for name, found in exported.items() if found <= {"passes", *_NOBODY_CAN}]
    lines.append(
        f"functions: {len(passing)} of {len(exported)} that torch.export captures pass in all samples"
    )
    core = core_operators()
    good, bad = set(), defaultdict(set)
    for item in outcomes:
        for operator in core.intersection(item.operators):
            if item.status == "passes":
                good.add(operator)
            elif item.status in ("wrong", "error") or operator in item.reason.split(":")[0]:
                bad[operator].add(item.name)
    met = {operator for item in outcomes for operator in core.intersection(item.operators)}
    lines.append(f"core operators: {len(good & met)} of {len(met)} that are met pass; {len(core)} in all")
    lines.append(f"core operators that no passing sample has: {' '.join(sorted(met - good))}")
    lines.append(f"core operators that no sample has: {' '.join(sorted(core - met))}")
    lines.extend(
        f"{item.status}: {item.name}[{item.sample}]: {item.reason}"
        for item in sorted(outcomes, key=lambda item: (item.status, item.name))
        if item.status in ("wrong", "error", "refused")
    )
    return "\n".join(lines)


def work(names: Sequence[str], count: int, dtype: str) -> None:
    """Print the outcomes of functions as lines of JSON, after the name of each."""
    for name in names:
        print(json.dumps({"begin": name}), flush=True)
        for outcome in run(name, count, dtype):
            print(json.dumps(asdict(outcome)), flush=True)


def run_in_process(names: Sequence[str], count: int, dtype: str) -> tuple[list[Outcome], list[str]]:
    """Run functions in a process of their own; return their outcomes, and the names that it did not reach."""
    options = ("--worker", "--samples", str(count), "--dtype", dtype)
    command = (sys.executable, "-m", "tests.importers.torch.operators", *options, *names)
    outcomes: list[Outcome] = []
    last, started = None, time.perf_counter()
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            data = json.loads(line)
            if "begin" in data:
                _show(last, outcomes, started)
                last, started = data["begin"], time.perf_counter()
            else:
                outcomes.append(Outcome(**data))
        if process.wait() == 0:
            _show(last, outcomes, started)
            return outcomes, []
        errors.seek(0)
        reason = f"the process ended with {process.returncode}: {errors.read()[-200:]}"
    last = last or names[0]
    outcomes.append(Outcome(last, -1, "error", reason, []))
    _show(last, outcomes, started)
    return outcomes, list(names[names.index(last) + 1 :])


def _show(name: str | None, outcomes: Sequence[Outcome], started: float) -> None:
    found = Counter(item.status for item in outcomes if item.name == name)
    if found:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(found.items()))
        print(f"{name}: {counts} ({time.perf_counter() - started:.1f} s)", flush=True)


def part(names: Sequence[str], text: str) -> list[str]:
    """Return each N-th name from the I-th on, for "I/N"."""
    index, _, count = text.partition("/")
    return list(names[int(index) - 1 :: int(count)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--dtype", default="float32", help="of the samples; float32 where it can be")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="each N-th function from the I-th on")
    parser.add_argument("--json", help="the file to which the outcomes are written")
    parser.add_argument("--report", nargs="+", metavar="FILE", help="print the table of these files only")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    outcomes: list[Outcome] = []
    if options.report:
        for path in options.report:
            outcomes.extend(Outcome(**data) for data in json.loads(Path(path).read_text(encoding="utf-8")))
        print(table(outcomes))
        return
    names = part(options.names or functions(), options.part)
    if options.worker:
        work(names, options.samples, options.dtype)
        return
    while names:
        found, unreached = run_in_process(names[:_CHUNK], options.samples, options.dtype)
        outcomes.extend(found)
        names = unreached + names[_CHUNK:]
        if options.json:
            Path(options.json).write_text(json.dumps([asdict(item) for item in outcomes]), encoding="utf-8")
    print(table(outcomes))


if __name__ == "__main__":
    main()
