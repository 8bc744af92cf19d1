"""Run samples of torch's own operator tests (OpInfo) through the importer, and count what passes.

``python -m tests.importers.torch.operators [--samples N] [--part I/N] [name ...]`` prints each function as it
ends, then how many pass, and how many of core ATen's operators, which are met in the functions' decomposed
graphs. ``--json FILE`` keeps the outcomes of a part, ``--report FILE ...`` prints the table of several parts.
``--hostile N --seed S`` has N draws of hostile operands for each sample: NaN, infinities, the ends of ranges,
also of no and of one element, and not contiguous.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo
from torch.utils import _pytree as pytree

from nnmagic.functions.compile import compile as compile_module
from nnmagic.importers.torch import TorchError
from nnmagic.importers.torch.convention import call_program, run_flat
from nnmagic.importers.torch.decompositions import decompositions
from nnmagic.importers.torch.operators import load_operators
from nnmagic.importers.torch.programs import import_graph, import_program
from tests.importers.torch import hostile

#: The dtypes of hostile operands.
DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64", "uint8", "bool")
#: Functions whose results nobody can compare: random, uninitialized, or of the moment.
_RANDOM = (
    *("rand", "dropout", "bernoulli", "multinomial", "normal", "empty", "exponential", "geometric", "cauchy"),
    *("log_normal", "uniform", "new_empty", "rrelu"),
)
#: The statuses of samples that torch itself does not run, or not capture.
_NOBODY_CAN = frozenset(("not exported", "not run"))
#: Functions whose results have any sign: eigenvectors and singular vectors.
_ANY_SIGN = frozenset(("linalg.eigh", "linalg.svd", "svd"))
#: OpInfo's classes of functions of single elements.
_ELEMENTWISE = UnaryUfuncInfo | BinaryUfuncInfo
#: Operands of so few elements are shown.
_SHOWN = 12
#: The bytes and the seconds that a function may need.
_MEMORY, _PATIENCE = 24 << 30, 240
#: The functions that one process runs.
_CHUNK = 24


@dataclass
class Outcome:
    """What became of a sample, or of a draw of hostile operands for it."""

    name: str
    dtype: str
    sample: int
    status: str  # passes, sworn, refused, wrong, error; or what torch cannot do: not exported, not run
    reason: str
    operators: list[str]


@dataclass(frozen=True)
class Options:
    """Which samples of a function run: how many, of which dtype, with how many hostile draws; the engine."""

    samples: int = 3
    dtype: str = "float32"
    hostile: int = 0
    seed: int = 0
    engine: str = "relax"

    @property
    def arguments(self) -> list[str]:
        """The options as arguments of the command."""
        return [text for name, value in asdict(self).items() for text in (f"--{name}", str(value))]


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
    names = dict.fromkeys(map(_full_name, op_db))
    return [name for name in names if not any(word in name for word in _RANDOM)]


def _info(name: str) -> Any:
    return next(info for info in op_db if _full_name(info) == name)


def _full_name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def samples(
    name: str, count: int, wanted: str = "float32", chance: random.Random | None = None
) -> Iterator[tuple[Any, list[Any]]]:
    """Modules and arguments of samples of a function: drawn by chance, or spread over all it has."""
    full = _info(name)
    dtypes = full.supported_dtypes("cpu")
    dtype = getattr(torch, wanted)
    if dtype not in dtypes:
        if not dtypes or wanted != "float32":
            return
        dtype = min(dtypes, key=str)
    found = list(full.sample_inputs("cpu", dtype, requires_grad=False))
    step = max(1, len(found) // count)
    for sample in found[::step][:count] if chance is None else chance.sample(found, min(count, len(found))):
        leaves, spec = pytree.tree_flatten(((sample.input, *sample.args), sample.kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if any(tensor.layout != torch.strided for tensor in tensors):
            continue
        marks = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
        yield _Sample(full.op, spec, marks), tensors


class _Stopped(Exception):
    """A sample cannot be run: the status, the reason, and the operators of its graph."""


class _Compiled:
    """A sample for operands of the same shapes. Raises _Stopped where it cannot be made.

    ``program``: as torch.export captures it; None: as AOTAutograd does, which takes a tenth of the time.
    """

    def __init__(self, module: torch.nn.Module, tensors: Sequence[torch.Tensor], options: Options) -> None:
        try:
            with torch.no_grad():
                module(*_copy(tensors))
        except Exception as error:
            raise _Stopped("not run", f"{type(error).__name__}: {error}"[:200], []) from None
        self.program: Any = None
        try:
            if options.hostile:
                graph = self.graph = _functional_graph(module, tensors)
            else:
                program = torch.export.export(module, tuple(_copy(tensors)), strict=False)
                table = torch.export.default_decompositions()
                table.pop(torch.ops.aten.special_log_ndtr.default, None)  # as `from_torch` keeps it
                self.program = program.run_decompositions(table)
                graph = self.program.graph_module
        except Exception as error:
            raise _Stopped("not exported", f"{type(error).__name__}: {error}"[:200], []) from None
        self.operators = sorted(
            {
                str(node.target.overloadpacket).removeprefix("aten.")
                for node in graph.graph.nodes
                if node.op == "call_function" and hasattr(node.target, "overloadpacket")
            }
        )
        try:
            if options.hostile:
                self.imported = import_graph(torch.fx.GraphModule(graph, deepcopy(graph.graph)))
            else:
                self.imported = import_program(self.program)
        except TorchError as error:
            reason = str(error.diagnostics[0].message)[:200]
            raise _Stopped("refused", reason, self.operators) from None
        module_ = self.imported.module
        self.function = compile_module(module_, cache=False, opt_level=0, engine=options.engine)

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Any:
        if self.program is None:
            with torch.no_grad():
                return run_flat(self.imported, self.function, _copy(tensors))
        try:
            with torch.no_grad():
                return call_program(self.imported, self.function, tuple(_copy(tensors)), {})
        except Exception:
            problem = _problem_of_torch(self.program, tensors)
            if problem is None:
                raise
            raise _Stopped("not run", problem, self.operators) from None

    def torch_differs(self, module: torch.nn.Module, tensors: Sequence[torch.Tensor], actual: Any) -> bool:
        """Return whether torch itself gives the result: for its decomposition, or element by element."""
        for graph in (self.graph, hostile.AsWritten(self.graph).run):
            decomposed = hostile.eager(graph, tensors)
            if decomposed is not None and hostile.difference(actual, decomposed, elementwise=False) is None:
                return True
        return hostile.is_of_single_elements(module, tensors, actual)


_decompositions = cache(decompositions)


def _functional_graph(module: torch.nn.Module, tensors: Sequence[torch.Tensor]) -> torch.fx.GraphModule:
    """Return a graph of core ATen for operands of fixed sizes; its outputs are the leaves of the result."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    fakes = [mode.from_tensor(tensor, static_shapes=True) for tensor in tensors]

    def leaves(*operands: torch.Tensor) -> list[Any]:
        return pytree.tree_leaves(module(*_copy(operands)))

    with torch.no_grad(), warnings.catch_warnings():
        made = make_fx(torch.func.functionalize(leaves), decomposition_table=_decompositions())
        return made(*fakes)  # type: ignore[no-any-return]


def _copy(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in tensors]


def _problem_of_torch(program: torch.export.ExportedProgram, tensors: Sequence[torch.Tensor]) -> str | None:
    """Return the error that torch itself raises for what it captured; None if it raises none."""
    try:
        program.module()(*[tensor.clone() for tensor in tensors])
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    return None


def run(name: str, options: Options = Options()) -> Iterator[Outcome]:
    """Run the samples of a function."""
    load_operators()  # and the libraries of torch that they have
    torch.manual_seed(options.seed)
    chance = random.Random(f"{options.seed} {name} {options.dtype}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = samples(name, options.samples, options.dtype, chance if options.hostile else None)
        for number, (module, tensors) in enumerate(found):
            made = hostile.sizes(module, tensors) if options.hostile else [tensors]
            for operands in made:
                is_own = all(one is other for one, other in zip(operands, tensors, strict=True))
                for status, reason, met in _outcomes(name, module, operands, options, chance, is_own=is_own):
                    yield Outcome(name, options.dtype, number, status, reason, met)


def _outcomes(
    name: str,
    module: torch.nn.Module,
    tensors: Sequence[torch.Tensor],
    options: Options,
    chance: random.Random,
    *,
    is_own: bool,
) -> Iterator[tuple[str, str, list[str]]]:
    """Import and compile a sample, run it, and with hostile operands; yield statuses, reasons, operators.

    ``is_own``: the operands are those of torch's sample, for which no difference is accepted.
    """
    try:
        compiled = _Compiled(module, tensors, options)
    except _Stopped as stopped:
        yield stopped.args
        return
    except Exception as error:
        yield "error", f"{type(error).__name__}: {error}"[:300], []
        return
    dtype, elementwise = getattr(torch, options.dtype), isinstance(_info(name), _ELEMENTWISE)
    for number in range(1 if name in hostile.CRASHING else options.hostile + 1):
        operands = tensors
        if number:
            operands = hostile.draw(name, module, tensors, dtype, chance, elementwise=elementwise)
        try:
            actual = compiled(operands)
            reason = _difference(name, actual, hostile.eager(module, operands), options)
            status = "wrong" if reason else "passes"
            accepts = number > 0 or not is_own or name in hostile.IMPRECISE
            accepts = accepts or (dtype == torch.uint8 and name in hostile.OF_BYTES)
            if (
                reason
                and accepts
                and (name in hostile.SWORN or compiled.torch_differs(module, operands, actual))
            ):
                status = "sworn"
            if status == "wrong" and hostile.is_nearer(module, operands, actual):
                status = "sworn"
        except _Stopped as stopped:
            yield stopped.args
            continue
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:300]
            status = "refused" if any(text in reason for text in hostile.REFUSED) else "error"
        yield status, _described(reason, operands) if reason else "", compiled.operators


def _difference(name: str, actual: Any, expected: Any, options: Options) -> str | None:
    if name in _ANY_SIGN:
        actual, expected = (pytree.tree_map(torch.abs, result) for result in (actual, expected))
    if options.hostile:
        if name in hostile.ANY_ORDER:
            actual, expected = (pytree.tree_leaves(result)[:1] for result in (actual, expected))
        elementwise = isinstance(_info(name), _ELEMENTWISE)
        return hostile.difference(actual, expected, elementwise=elementwise)
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=False, rtol=1e-4, atol=1e-5)
    except AssertionError as error:
        return " ".join(str(error).split())[:300]
    return None


def _described(reason: str, operands: Sequence[torch.Tensor]) -> str:
    shown = " ".join(str(list(operand.shape)) for operand in operands)
    small = [operand.tolist() for operand in operands if operand.numel() <= _SHOWN]
    return f"{reason} ({shown} {small})"[:400]


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
    lines.extend(
        f"{dtype}: {dict(Counter(item.status for item in outcomes if item.dtype == dtype))}"
        for dtype in dict.fromkeys(item.dtype for item in outcomes)
    )
    by_name = defaultdict(set)
    for item in outcomes:
        by_name[item.name].add(item.status)
    exported = {name: found for name, found in by_name.items() if not found <= _NOBODY_CAN}
    passing = [name for name, found in exported.items() if found <= {"passes", "sworn", *_NOBODY_CAN}]
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
    shown = defaultdict(list)
    for item in sorted(outcomes, key=lambda item: (item.status, item.name, item.dtype)):
        if item.status in ("wrong", "error", "refused"):
            shown[f"{item.status}: {item.name} {item.dtype}"].append(f"[{item.sample}]: {item.reason}")
    lines.extend(f"{what} ({len(reasons)}) {reasons[0]}" for what, reasons in shown.items())
    return "\n".join(lines)


def work(names: Sequence[str], options: Options) -> None:
    """Print the outcomes of functions as lines of JSON, after the name of each.

    The process ends where a function needs too much memory or time.
    """
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    for name in names:
        signal.alarm(_PATIENCE)
        print(json.dumps({"begin": name}), flush=True)
        for outcome in run(name, options):
            print(json.dumps(asdict(outcome)), flush=True)


def run_in_process(names: Sequence[str], options: Options) -> tuple[list[Outcome], list[str]]:
    """Run functions in a process of their own; return their outcomes, and the names that it did not reach."""
    module = "tests.importers.torch.operators"
    command = (sys.executable, "-W", "ignore", "-m", module, "--worker", *options.arguments, *names)
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
    outcomes.append(Outcome(last, options.dtype, -1, "error", reason, []))
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
    parser.add_argument("--dtype", default="float32", help="of the samples, or several: f,g")
    parser.add_argument("--hostile", type=int, default=0, help="the draws of hostile operands of each sample")
    parser.add_argument("--seed", type=int, default=0, help="of the samples and the draws")
    parser.add_argument("--engine", default="relax")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="each N-th function from the I-th on")
    parser.add_argument("--json", help="the file to which the outcomes are written")
    parser.add_argument("--report", nargs="+", metavar="FILE", help="print the table of these files only")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    outcomes: list[Outcome] = []
    if given.report:
        for path in given.report:
            outcomes.extend(Outcome(**data) for data in json.loads(Path(path).read_text(encoding="utf-8")))
        print(table(outcomes))
        return
    names = part(given.names or functions(), given.part)
    for dtype in given.dtype.split(","):
        options = Options(given.samples, dtype, given.hostile, given.seed, given.engine)
        if given.worker:
            work(names, options)
            return
        rest = names
        while rest:
            found, unreached = run_in_process(rest[:_CHUNK], options)
            outcomes.extend(found)
            rest = unreached + rest[_CHUNK:]
            if given.json:
                Path(given.json).write_text(json.dumps([asdict(item) for item in outcomes]), encoding="utf-8")
    print(table(outcomes))


if __name__ == "__main__":
    main()
