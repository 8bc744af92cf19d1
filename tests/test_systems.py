"""What other systems lack or name otherwise: described from outside, and taken away in a child process.

They judge engine/relax/codegen/object_files and engine/relax/codegen/object_code, too.
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import tvm
from tvm.target import codegen

from nnmagic import EngineError
from nnmagic.engine import cpu
from nnmagic.engine.relax.codegen import object_files, stage_texts, target
from nnmagic.engine.threads import cores
from tests.systems import POSIX

WITHOUT = """
import ctypes, os, platform, signal, sys, tempfile, threading, types
import concurrent.futures, multiprocessing, asyncio, logging, pathlib, shutil, subprocess, random
import numpy as np
import tvm, tvm_ffi_orcjit, IPython

system = sys.argv[1]
for name in ("sched_getaffinity", "sched_setaffinity", "memfd_create"):
    if hasattr(os, name):
        delattr(os, name)
if system == "windows":
    for name in ("fork", "register_at_fork", "geteuid", "getuid", "O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK",
                 "O_CLOEXEC", "wait"):
        if hasattr(os, name):
            delattr(os, name)
    import shutil
    shutil._use_fd_functions = False
    if hasattr(shutil, "_rmtree_impl"):  # from Python 3.14 on
        shutil._rmtree_impl = shutil._rmtree_unsafe
    for name in ("pthread_kill", "SIGALRM", "setitimer", "SIGKILL", "SIGHUP"):
        if hasattr(signal, name):
            delattr(signal, name)
    sys.modules["fcntl"] = None
    real = threading.stack_size

    def stack_size(size=0):
        if size >= 0x10000000:
            raise ValueError(f"size not valid: {size} bytes")
        return real(size)

    threading.stack_size = stack_size
    # The same names, and "nt" as the name, for the modules that ask for it.
    windows = types.ModuleType("os")
    windows.__dict__.update(os.__dict__)
    windows.name = "nt"
    posix, sys.modules["os"] = os, windows
    import nnmagic.engine.relax.runtime.thread_pool
    import nnmagic.engine.relax.runtime.compiled_program
    import nnmagic.cache.settings
    import nnmagic.cache.database
    kernel32 = types.SimpleNamespace(
        IsProcessorFeaturePresent=lambda number: 1, GetDriveTypeW=lambda path: 4 if "Z:" in path else 3
    )
    ctypes.windll = types.SimpleNamespace(kernel32=kernel32)
    sys.modules["os"] = posix
    import concurrent.futures
    wait, waited = concurrent.futures.wait, []

    def wait_heard(futures, timeout=None):
        assert timeout is not None, "an interrupt is not heard while a thread waits without end"
        waited.append(timeout)
        return wait(futures, timeout)

    concurrent.futures.wait = wait_heard
import nnmagic
from nnmagic import Tensor, f32
from nnmagic.engine import cpu

cpu.CPUINFO = pathlib.Path("/nonexistent")
cpu._sysctl = {
    "machdep.cpu.brand_string": b"Apple M1",
    "hw.optional.arm.FEAT_LSE": b"\\1",
    "hw.perflevel0.logicalcpu": b"\\1",
}.get
platform.system = system.capitalize

@nnmagic.function
def product(x: Tensor[(256, 256), f32]):
    return x @ x

@nnmagic.function
def named(x: Tensor[("n", 256), f32]):
    return softmax(x @ x.T, axis=-1)

@nnmagic.function
def count(n: Tensor[(), f32]):
    while n > 0:
        n = n - 1
    return n

@nnmagic.function
def total(n: Tensor[(), f32]) -> Tensor[(), f32]:
    if n > 0:
        return total(n - 1) + n
    else:
        return n

def in_thread(run):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result()

x = np.eye(256, dtype="float32") * 2
assert np.array_equal(product(x), x @ x)
assert np.array_equal(in_thread(lambda: product(x)), x @ x)
assert np.allclose(named(x).sum(axis=1), 1)
assert np.allclose(in_thread(lambda: named(x)).sum(axis=1), 1)
assert count(np.float32(5000)) == 0
assert total(np.float32(2000)) == 2001000
assert cpu.processor() and cpu.missing_features(["sse2" if system == "windows" else "atomics"]) == []
assert cpu.missing_features(["mops"]) == ["mops"]
path = os.path.join(tempfile.mkdtemp(), "a folder, ä.nnm")
product.save(path)
assert np.array_equal(nnmagic.load(path)(x), x @ x)
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
shell.run_line_magic("load_ext", "nnmagic")
shell.run_cell_magic("tinynn", "-q", "def g(a: Tensor[(2, 3), f32]):\\n    return a + 1.0\\n")
assert (shell.user_ns["g"](np.ones((2, 3), "float32")) == 2).all()
if system == "windows":
    assert waited
    assert os.listdir(os.environ["NNMAGIC_CACHE_DIR"]) == ["entries-1.sqlite"]
    assert nnmagic.cache.disk_cache().usage.entries > 4
    for drive in ("Z:", "//machine/share"):
        assert nnmagic.cache.database._is_remote(pathlib.PureWindowsPath(f"{drive}/cache"))
    assert not nnmagic.cache.database._is_remote(pathlib.PureWindowsPath("C:/cache"))
print("all ways work")
"""


@pytest.mark.full
@POSIX
@pytest.mark.parametrize("system", ["darwin", "windows"])
def test_everything_works_without_what_a_system_lacks(system: str, tmp_path: Path) -> None:
    folder = tmp_path / "a home of ä"
    folder.mkdir()
    environ = {**os.environ, "NNMAGIC_CACHE_DIR": str(folder / "cache"), "HOME": str(folder)}
    script = folder / "script.py"
    script.write_text(WITHOUT, encoding="utf-8")
    command = [sys.executable, "-W", "ignore", str(script), system]
    environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    done = subprocess.run(command, capture_output=True, text=True, env=environ, check=False, timeout=300)
    assert done.stdout.splitlines()[-1:] == ["all ways work"], done.stdout + done.stderr


def test_a_mac_is_known_by_its_model_and_its_instruction_sets() -> None:
    answers = {
        "machdep.cpu.brand_string": b"Apple M1\0",
        "hw.optional.arm.FEAT_DotProd": b"\1\0\0\0",
        "hw.optional.arm.FEAT_BF16": b"\0\0\0\0",
        "hw.optional.arm.FEAT_LSE": b"\1\0\0\0",
        "hw.optional.armv8_crc32": b"\1\0\0\0",
    }
    found = cpu._describe_mac(answers.get)
    assert found == {"model name": "Apple M1", "Features": "asimd asimddp atomics crc32"}
    assert cpu._describe_mac({}.get) == {"model name": ""}


def test_windows_programs_use_what_the_system_saves_the_registers_of() -> None:
    features = {"sse2", "avx", "avx2", "fma", "avx512f", "avx512_vnni", "amx_int8"}
    described = {
        (39, 41): "amx_int8 avx avx2 avx512_vnni avx512f fma sse2",
        (39,): "avx avx2 fma sse2",
        (): "sse2",
    }
    for saved, flags in described.items():
        found = cpu._describe_windows("A model", features, saved.__contains__)
        assert found == {"model name": "A model", "flags": flags}


@pytest.mark.skipif(platform.machine() != "x86_64" or sys.platform != "linux", reason="Linux lists the truth")
def test_the_cpu_says_what_linux_lists() -> None:
    """The CPU may say a little more: Linux hides what is broken, an older one does not know what is new."""
    model, features = cpu._ask_cpu()
    listed = cpu._read_cpuinfo()
    assert model.strip() == listed["model name"]
    said = set(map(cpu._plain, features))
    linux = {name for name in map(cpu._plain, listed["flags"].split()) if cpu.is_instruction_set(name)}
    assert linux - said == set()
    assert len([name for name in said - linux if cpu.is_instruction_set(name)]) < 6


@pytest.mark.parametrize(
    ("described", "lacks"),
    [
        (cpu._describe_windows("", {"avx", "avx2", "avx512f"}, lambda number: number != 41), ["avx512f"]),
        (cpu._describe_mac({"hw.optional.arm.FEAT_LSE": b"\1"}.get), ["avx2", "avx512f", "bf16"]),
    ],
)
def test_a_program_for_another_cpu_is_known(described, lacks, monkeypatch) -> None:
    monkeypatch.setattr(cpu, "_description", lambda: described)
    cpu.instruction_sets.cache_clear()
    try:
        wanted = ["avx2", "avx512f", *(["bf16"] if "Features" in described else [])]
        assert cpu.missing_features(wanted) == lacks
    finally:
        cpu.instruction_sets.cache_clear()


@pytest.mark.skipif(sys.platform == "win32", reason="the processor describes itself there")
def test_two_makers_with_one_number_are_two_processors(tmp_path: Path, monkeypatch) -> None:
    seen = set()
    for maker in ("0x41", "0x48"):
        listed = tmp_path / maker
        listed.write_text(f"CPU implementer : {maker}\nCPU part : 0xd0c\nFeatures : asimd\n")
        monkeypatch.setattr(cpu, "CPUINFO", listed)
        cpu.processor.cache_clear()
        seen.add(cpu.processor())
    cpu.processor.cache_clear()
    assert len(seen) == 2


def test_instruction_sets_of_arm_are_what_a_program_can_die_of() -> None:
    fatal = (
        "lse dotprod fullfp16 fp16fml rdm rcpc bf16 i8mm complxnum jsconv fptoint crc aes sm4 sme mops cssc "
        "sb rand pauth altnzcv"
    )
    assert all(map(cpu.is_instruction_set, fatal.split()))
    assert not cpu.is_instruction_set("fuse-aes")
    assert not cpu.is_instruction_set("slow-3ops-lea")


def test_windows_and_linux_know_a_feature_by_one_name() -> None:
    """LLVM's names of what the CPU is asked for, as they stand in the entries of the cache."""
    llvm = "avxvnniint8 avxneconvert avxvnniint16 amx-complex avx512vnni avx512vbmi2 sha pclmul bmi lzcnt fma"
    asked = (
        "avx_vnni_int8 avx_ne_convert avx_vnni_int16 amx_complex avx512_vnni avx512_vbmi2 sha_ni pclmulqdq"
    )
    assert {*map(cpu._in_linux, llvm.split())} == {*map(cpu._plain, f"{asked} bmi1 abm fma".split())}


@pytest.fixture
def as_a_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let LLVM take this machine for a Mac with an M1; what it knows of the CPUs there is its own."""
    arm = {"kind": "llvm", "mtriple": "arm64-apple-darwin24.0.0"}
    monkeypatch.setattr(codegen, "llvm_get_system_triple", lambda: arm["mtriple"])
    monkeypatch.setattr(codegen, "llvm_get_system_cpu", lambda: "apple-m1")
    listed = frozenset(map(str, codegen.llvm_get_cpu_archlist(tvm.target.Target(arm))))
    monkeypatch.setattr(target, "_cpus", lambda: listed)

    def features(name: str) -> frozenset[str]:
        return frozenset(map(str, codegen.llvm_get_cpu_features(tvm.target.Target({**arm, "mcpu": name}))))

    monkeypatch.setattr(target, "_features", features)


@pytest.mark.usefixtures("as_a_mac")
def test_a_mac_compiles_for_itself_by_each_of_its_names() -> None:
    for own in ({"mcpu": "apple-m1"}, {"mcpu": "apple-a14"}, {"mcpu": "cortex-a72"}):
        target._check_cpu(own)
    with pytest.raises(EngineError, match="LLVM does not know the CPU 'apple-m99'"):
        target._check_cpu({"mcpu": "apple-m99"})
    with pytest.raises(EngineError, match=r"cannot run code for 'apple-m4': it lacks .*bf16"):
        target._check_cpu({"mcpu": "apple-m4"})
    for triple in ("arm64-apple-darwin24.0.0", "aarch64-apple-darwin"):
        target._check_architecture({"mtriple": triple})
    for triple in ("x86_64-apple-darwin", "aarch64-linux-gnu"):
        with pytest.raises(EngineError, match="cannot run on this machine"):
            target._check_architecture({"mtriple": triple})


def test_the_second_of_two_arm_machines_is_asked_for_what_its_code_needs(
    monkeypatch: pytest.MonkeyPatch, as_a_mac: None
) -> None:
    monkeypatch.setattr(codegen, "llvm_get_system_cpu", lambda: "cortex-a72")
    with pytest.raises(EngineError, match=r"'neoverse-n1': it lacks dotprod, fullfp16, lse, .*rdm"):
        target._check_cpu({"mcpu": "neoverse-n1"})


def test_a_mac_uses_its_fast_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"hw.perflevel0.logicalcpu": (4).to_bytes(4, sys.byteorder)}
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(cpu, "_sysctl", answers.get)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cores() == [0, 1, 2, 3]
    answers.clear()
    assert len(cores()) == os.cpu_count()


class _Kernel32:
    """Windows' short names, where the volume has them."""

    def __init__(self, short: str) -> None:
        self.short = short

    def GetShortPathNameW(self, path: str, buffer: ctypes.Array[ctypes.c_wchar] | None, size: int) -> int:
        if buffer is None:
            return len(self.short) + 1 if self.short else 0
        buffer.value = self.short
        return len(self.short)


@pytest.mark.parametrize(
    ("short", "taken"), [("C:\\USERS\\NAME~1", "C:\\USERS\\NAME~1"), ("", "C:\\Users\\Ä")]
)
def test_a_folder_of_windows_is_named_in_ascii_where_it_can_be(short: str, taken: str) -> None:
    assert object_files._short_name("C:\\Users\\Ä", _Kernel32(short)) == taken


@pytest.mark.parametrize("addresses", [("0x55d1c0", "0x7f3e"), ("0000000006C3E6F0", "0000000006D31960")])
def test_addresses_in_the_code_of_llvm_are_numbered(addresses: tuple[str, str]) -> None:
    one, other = addresses
    code = "  %1 = load i64, ptr %0, !tbaa !1\n  store i64 %1, ptr %0, !tbaa !3\n"
    printed = f'{code}!1 = !{{!"{one}.w8", !2}}\n!2 = !{{!"{one}"}}\n!3 = !{{!"{other}"}}\n'
    library = SimpleNamespace(inspect_source=lambda _: printed)
    shown = stage_texts.code_text([library], "llvm")
    assert shown == code + '!1 = !{!"0.w8", !2}\n!2 = !{!"0"}\n!3 = !{!"1"}\n'


READ_ONLY_HOME = """
import warnings
import numpy as np
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import nnmagic
    from IPython.testing.globalipapp import start_ipython
    shell = start_ipython()
    shell.run_line_magic("load_ext", "nnmagic")
    shell.run_cell_magic("tinynn", "-q", "def g(a: Tensor[(2, 3), f32]):\\n    return a + 1.0\\n")
    assert (shell.user_ns["g"](np.ones((2, 3), "float32")) == 2).all()
own = [str(each.message) for each in seen if issubclass(each.category, nnmagic.CacheWarning)]
print(len(own), own[0])
"""


@pytest.mark.full
@POSIX
def test_a_home_that_cannot_be_written_to_costs_a_warning() -> None:
    environ = {**os.environ, "HOME": "/proc/home", "PYTHONPATH": str(Path(__file__).parents[1])}
    for name in ("NNMAGIC_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "IPYTHONDIR"):
        environ.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY_HOME], capture_output=True, text=True, env=environ, check=False
    )
    assert done.stdout.startswith("1 nnmagic's cache in /proc/home/"), done.stdout + done.stderr
    assert "cannot be written to" in done.stdout
