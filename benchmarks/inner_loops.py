"""Judge the inner loops of kernels for CPUs that are not here: ``python -m benchmarks.inner_loops``.

Each kernel is compiled for each CPU, and llvm-mca, LLVM's model of the CPU's pipeline, says how many cycles
the loop with the most multiply-adds takes: its share of what the CPU's units could do. LLVM has no model of
Apple's cores; Neoverse V1, which has as many units, stands for them.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from unittest.mock import patch

import tvm

import nnmagic
from nnmagic.engine.relax import driver
from nnmagic.engine.relax.codegen import target as target_module
from nnmagic.engine.relax.prepared_program import prepare
from nnmagic.relay.structure.callgraph import call_graph

#: Newer ones have models of newer CPUs.
_ANALYSERS = ("llvm-mca-22", "llvm-mca-21", "llvm-mca-20", "llvm-mca-19", "llvm-mca")
_ROUNDS = 200
_ARM, _X86 = "aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu"


@dataclass(frozen=True, slots=True)
class Cpu:
    """A CPU: its vectors of multiply-adds a cycle, whose model judges, and the least share that is wanted.

    AVX2's sixteen registers are too few for some kernels: 0.69 is the least that they had before.
    """

    name: str
    triple: str
    units: int
    model: str
    goal: float


CPUS = (
    Cpu("neoverse-n1", _ARM, 2, "neoverse-n1", 0.9),
    Cpu("neoverse-v1", _ARM, 4, "neoverse-v1", 0.85),
    Cpu("apple-m1", _ARM, 4, "neoverse-v1", 0.85),
    Cpu("haswell", _X86, 2, "haswell", 0.69),
    Cpu("znver2", _X86, 2, "znver2", 0.69),
)


def _product(rows: int, inner: int, columns: int, dtype: str = "f32") -> str:
    left, right = f"Tensor[({rows}, {inner}), {dtype}]", f"Tensor[({inner}, {columns}), {dtype}]"
    return f"def f(a: {left}, b: {right}):\n    return a @ b\n"


def _convolution(channels: int, size: int, filters: int, window: int, stride: int = 1) -> str:
    image, weight = (1, channels, size, size), (filters, channels, window, window)
    call = f"nn.conv2d(x, w, strides={stride}, padding={window // 2})"
    return f"def f(x: Tensor[{image}, f32], w: Tensor[{weight}, f32]):\n    return {call}\n"


KERNELS = {
    "product 512": _product(512, 512, 512),
    "product 128": _product(128, 128, 128),
    "product 64x512x512": _product(64, 512, 512),
    "product 256, f64": _product(256, 256, 256, "f64"),
    "convolution 3x3, 64 of 56x56": _convolution(64, 56, 64, 3),
    "convolution 3x3, 512 of 7x7": _convolution(512, 7, 512, 3),
    "convolution 1x1, 256 of 14x14": _convolution(256, 14, 1024, 1),
    "convolution 7x7, stride 2": _convolution(3, 224, 64, 7, 2),
}


@dataclass(frozen=True, slots=True)
class Loop:
    """An innermost loop: its multiply-adds, instructions that spill to the stack, cycles a round."""

    multiply_adds: int
    spills: int
    cycles: float


def assembly(source: str, cpu: Cpu) -> str:
    """Return the assembly of a cell for a CPU, whichever machine this is."""
    module = nnmagic.compile(source, namespace={}, cache=False).relay
    aimed = {"kind": "llvm", "mtriple": cpu.triple, "mcpu": cpu.name}

    def resolve(_target: object, opt_level: int) -> tvm.target.Target:
        return tvm.target.Target({**aimed, "opt-level": opt_level})

    with patch.object(target_module, "resolve_target", resolve):
        prepared = prepare(module, "f", 3, call_graph(module))
        return driver._compile_or_locate(prepared, None, 3).stage("asm")


def main_loop(text: str, cpu: Cpu, analyser: str) -> Loop:
    """Return the innermost loop with the most multiply-adds."""
    loops = list(_innermost_loops(text))
    body = max(loops, key=_count_multiply_adds)
    told = subprocess.run(
        [analyser, f"-mtriple={cpu.triple}", f"-mcpu={cpu.model}", f"-iterations={_ROUNDS}"],
        input="\n".join(line for line in body if not _BRANCH.match(line)) + "\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    cycles = re.search(r"Total Cycles:\s+(\d+)", told)
    if cycles is None:
        raise ValueError(f"{analyser} says nothing of cycles: {told}")
    spills = sum("[sp" in line or "(%rsp" in line for line in body)
    return Loop(_count_multiply_adds(body), spills, int(cycles[1]) / _ROUNDS)


_BRANCH = re.compile(r"(b|b\.\w+|cbn?z|tbn?z|j\w+)\s+(.*)$")
_MULTIPLY_ADD = re.compile(r"(fmla|vfmadd|vfmsub)")


def _count_multiply_adds(body: list[str]) -> int:
    return sum(_MULTIPLY_ADD.match(line) is not None for line in body)


def _innermost_loops(text: str) -> Iterator[list[str]]:
    """Yield the instructions between a label and a branch back to it, with no such loop inside."""
    instructions: list[str] = []
    labels: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for each in text.splitlines():
        line = re.sub(r"\s*(//|##|# ).*$", "", each).strip()
        if label := re.match(r"([.\w$]+):$", line):
            labels[label[1]] = len(instructions)
        elif line and line[0] not in ".;#":
            instructions.append(line)
            branch = _BRANCH.match(line)
            target = branch[2].split(",")[-1].strip() if branch else ""
            if target in labels:  # of an earlier instruction, the last of that name
                found.append((labels[target], len(instructions) - 1))
    for first, last in found:
        if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in found):
            yield instructions[first : last + 1]


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each kernel and CPU; 1 where one is below its CPU's goal."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inner_loops", description=__doc__)
    parser.add_argument("--cpu", nargs="+", choices=[cpu.name for cpu in CPUS], help="these CPUs only")
    parser.add_argument("--only", nargs="+", metavar="PART", help="kernels whose name has one of these parts")
    options = parser.parse_args(arguments)
    analyser = next(filter(None, map(shutil.which, _ANALYSERS)), None)
    if analyser is None:
        print("llvm-mca was not found; Debian's package llvm-19 has it", file=sys.stderr)
        return 2
    missed = 0
    print(f"{'kernel':32} {'CPU':12} multiply-adds  cycles  spills  of the peak")
    for name, source in KERNELS.items():
        if options.only and not any(part in name for part in options.only):
            continue
        for cpu in CPUS:
            if options.cpu and cpu.name not in options.cpu:
                continue
            loop = main_loop(assembly(source, cpu), cpu, analyser)
            share = loop.multiply_adds / loop.cycles / cpu.units
            is_met = share >= cpu.goal and (cpu.triple == _X86 or not loop.spills)
            missed += not is_met
            row = f"{loop.multiply_adds:13}  {loop.cycles:6.1f}  {loop.spills:6}  {share:6.0%}"
            print(f"{name:32} {cpu.name:12} {row} {'' if is_met else '  missed'}", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
