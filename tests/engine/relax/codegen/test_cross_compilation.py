"""Object files for other systems: what they need from outside is what each system's C library has.

They judge engine/relax/codegen/preloading, too.
"""

import pytest
import tvm

import nnmagic
from nnmagic.engine.relax import driver
from nnmagic.engine.relax.codegen import target as target_module
from nnmagic.engine.relax.prepared_program import prepare
from nnmagic.relay.structure.callgraph import call_graph

TARGETS = {
    "linux x86-64": ("x86_64-unknown-linux-gnu", "haswell"),
    "linux arm64": ("aarch64-unknown-linux-gnu", "neoverse-n1"),
    "linux arm64, sve": ("aarch64-unknown-linux-gnu", "neoverse-v1"),
    "linux arm64, old": ("aarch64-unknown-linux-gnu", "cortex-a72"),
    "macos arm64": ("arm64-apple-darwin", "apple-m1"),
    "windows x86-64": ("x86_64-pc-windows-msvc", "haswell"),
    "windows x86-64, avx-512": ("x86_64-pc-windows-msvc", "znver4"),
}

#: Functions that every C library has, and those that only some have.
EVERYWHERE = {"free", "malloc", "memcpy", "memset", "memmove"}
#: TVM's runtime, which loads the code, has these.
TVM = {"TVMBackendParallelLaunch", "TVMFFIErrorSetRaisedFromCStr", "TVMFFIErrorSetRaisedFromCStrParts"}
OWN = {
    "linux": {"aligned_alloc", "pthread_self"},
    "macos": {"aligned_alloc", "bzero", "pthread_self"},
    # The loader brings the last two.
    "windows": {"_aligned_malloc", "_aligned_free", "GetCurrentThreadId", "_fltused", "__chkstk"},
}
MATHEMATICS = {name + kind for kind in ("", "f") for name in ("exp", "pow", "fmod", "log", "sin", "cos")}

PROGRAMS = {
    "product": "def f(a: Tensor[(64, 64), f32], b: Tensor[(64, 64), f32]):\n    return relu(a @ b)",
    "softmax": 'def f(x: Tensor[("n", 100), f32]):\n    return softmax(sin(x), axis=1)',
    "half": "def f(x: Tensor[(100,), f16]):\n    return x * 2.0 + x",
    "a loop": "def f(x: f64):\n    while x > 1:\n        x = x * 0.5\n    return x",
    "deep recursion": """
def f(x: Tensor[("n",), f64], i: i64) -> Tensor[("n",), f64]:
    if i > 0:
        return f(sort(x) * 2.0, i - 1) + x
    return x
""",
    "large buffers": "def f(x: Tensor[(4, 20000000), f32]):\n    return sort(x)",
}


def undefined(code: bytes) -> set[str]:
    """Return the names of what an object file needs from outside."""
    import lief  # takes a second, which other tests need not wait for

    binary = lief.parse(list(code)) or lief.COFF.parse(list(code))
    found = set()
    for symbol in binary.symbols:
        if isinstance(binary, lief.ELF.Binary):
            is_needed = symbol.shndx == 0 and symbol.name
        elif isinstance(binary, lief.MachO.Binary):
            is_needed = symbol.raw_type & 0x0E == 0 and symbol.raw_type & 1
        else:
            external = type(symbol).STORAGE_CLASS.EXTERNAL
            is_needed = symbol.section_idx == 0 and symbol.storage_class == external
        if is_needed:
            name = symbol.name
            found.add(name.removeprefix("_") if isinstance(binary, lief.MachO.Binary) else name)
    return found


#: What the default suite asks: a program that takes memory as it runs, for the system with another C library.
DEFAULT = ("windows x86-64", "deep recursion")


@pytest.mark.parametrize(
    ("name", "program"),
    [
        pytest.param(name, program, marks=() if (name, program) == DEFAULT else pytest.mark.full)
        for name in TARGETS
        for program in PROGRAMS
    ],
)
def test_what_objects_need_is_there(name, program, monkeypatch):
    module = nnmagic.compile(PROGRAMS[program], namespace={}, engine="numpy").relay
    triple, cpu = TARGETS[name]
    allowed = EVERYWHERE | TVM | MATHEMATICS | OWN[name.split()[0]]

    def resolve(_target, opt_level):
        return tvm.target.Target({"kind": "llvm", "mtriple": triple, "mcpu": cpu, "opt-level": opt_level})

    monkeypatch.setattr(target_module, "resolve_target", resolve)
    artifact = driver._compile_or_locate(prepare(module, "f", 3, call_graph(module)), None, 3).artifact
    needed = set().union(*map(undefined, artifact.code))
    parts = {each for each in needed if each.startswith("nnmagic_kernel_")}  # of another part of the program
    assert needed - parts <= allowed, sorted(needed - parts - allowed)
    if program == "softmax":
        assert "sinf" in needed
    if program == "large buffers":
        assert ("_aligned_malloc" if "windows" in name else "aligned_alloc") in needed
