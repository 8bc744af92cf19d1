"""Describe the CPU of this machine, as far as machine code depends on it.

Linux lists it in a file, macOS answers by ``sysctlbyname``; on Windows the CPU itself is asked, by CPUID.
"""

from __future__ import annotations

import ctypes
import platform
import re
import sys
from collections.abc import Callable
from functools import cache

#: Where Linux lists what its processors can do.
CPUINFO = "/proc/cpuinfo"

#: LLVM's names of instruction sets that Linux calls otherwise.
_OTHER_NAMES = {
    "sse3": "pni",
    "lzcnt": "abm",
    "sha": "shani",
    "bmi": "bmi1",
    "pclmul": "pclmulqdq",
    "neon": "asimd",
    "dotprod": "asimddp",
    "lse": "atomics",
    "fullfp16": "asimdhp",
    "rdm": "asimdrdm",
    "fp16fml": "asimdfhm",
    "crc": "crc32",
    "complxnum": "fcma",
    "jsconv": "jscvt",
    "rcpc": "lrcpc",
    "fptoint": "frint",
    "prfchw": "3dnowprefetch",
    "sahf": "lahf_lm",
    "rdrnd": "rdrand",
    "rand": "rng",
    "pauth": "paca",
    "altnzcv": "flagm2",
    # One word for what LLVM has eight for.
    **dict.fromkeys(("egpr", "push2pop2", "ppx", "ndd", "ccmp", "nf", "cf", "zu"), "apx"),
}

#: How the names of those begin that a compiler may use unasked; the others are for operating systems.
_OF_COMPILERS = (
    *("3dnow", "abm", "adx", "aes", "amx", "apx", "asimd", "atomics", "avx", "bf16", "bmi", "cmov", "crc32"),
    *("cx16", "f16c", "fcma", "fma", "frint", "gfni", "i8mm", "jscvt", "lahf", "lrcpc", "lwp", "mmx"),
    *("movbe", "movdir", "pclmul", "pni", "popcnt", "rdrand", "rdseed", "sha", "sm3", "sm4", "sme", "sse"),
    *("ssse", "sve", "tbm", "vaes", "vpclmul", "xop", "cssc", "flagm", "mops", "paca", "rng", "sb"),
)

#: Linux's names of what macOS calls ``hw.optional.arm.FEAT_...``, lower case.
_OF_MACOS = {
    "dotprod": "asimddp",
    "lse": "atomics",
    "fp16": "asimdhp",
    "rdm": "asimdrdm",
    "fhm": "asimdfhm",
    "lrcpc": "lrcpc",
    "frintts": "frint",
    "sha256": "sha2",
    "pauth": "paca",
    **{name: name for name in ("aes", "bf16", "cssc", "fcma", "flagm", "i8mm", "jscvt", "mops", "sha1")},
    **{name: name for name in ("sha512", "sha3", "sm4", "sme", "sme2", "sve", "crc32", "flagm2", "sb")},
}

#: What ``IsProcessorFeaturePresent`` (winnt.h) calls the registers that a system must save for its programs,
#: and how the names of the instruction sets begin that use them.
_REGISTERS = {39: ("avx", "fma", "f16c", "vaes", "vpclmul", "xop", "amx"), 41: ("avx512", "avx10", "amx")}

#: Bits of EDX of CPUID's leaf 7, subleaf 1, by Linux's names: archspec does not ask for them.
_LEAF_7_1 = {
    "avx_vnni_int8": 4,
    "avx_ne_convert": 5,
    "amx_complex": 8,
    "avx_vnni_int16": 10,
    "prefetchi": 14,
    "avx10": 19,
    "apx": 21,
}


def platform_name() -> str:
    """Return the system and the architecture, which an object file is for."""
    return f"{platform.system()} {platform.machine()}"


@cache
def processor() -> str:
    """Identify the CPU by model and instruction sets: machine code may differ between identities."""
    import hashlib

    listed = _description() or {"processor": platform.processor()}  # which starts a process on some systems
    words = [platform_name(), *(f"{name} {value}" for name, value in listed.items())]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def model_name() -> str:
    """Return what the system calls the CPU; "" if it does not say."""
    return _description().get("model name", "")


@cache
def instruction_sets() -> frozenset[str] | None:
    """Return the instruction sets of this CPU by Linux's names without punctuation; None if unknown."""
    listed = _description()
    words = listed.get("flags", listed.get("Features", listed.get("isa", ""))).split()
    return frozenset(map(_plain, words)) or None


def select_required_features(features: list[str]) -> list[str]:
    """Return which of LLVM's instruction sets this CPU reports itself."""
    known = instruction_sets() or frozenset()
    return sorted({_in_linux(feature) for feature in features if is_instruction_set(feature)} & known)


def is_instruction_set(feature: str) -> bool:
    """Return whether one of LLVM's features is what a program can die of; others are hints for tuning."""
    return _in_linux(feature).startswith(_OF_COMPILERS)


def missing_features(wanted: list[str]) -> list[str]:
    """Return the instruction sets of ``wanted`` that this CPU lacks; empty if it is unknown what it has."""
    features = instruction_sets()
    return [] if features is None else [name for name in wanted if name not in features]


def performance_cores() -> int | None:
    """Return how many fast cores a Mac has; None elsewhere, and where macOS does not say."""
    if platform.system() != "Darwin":
        return None
    answer = _sysctl("hw.perflevel0.logicalcpu")
    return int.from_bytes(answer, sys.byteorder) if answer else None


def _description() -> dict[str, str]:
    """Return what the system says of the CPU, as far as machine code depends on it."""
    if platform.system() == "Darwin":
        return _describe_mac(_sysctl)
    if platform.system() == "Windows":
        is_present = getattr(ctypes, "windll").kernel32.IsProcessorFeaturePresent  # noqa: B009 # Windows' own
        return _describe_windows(*_ask_cpu(), is_present)
    return _read_cpuinfo()


def _describe_mac(sysctl: Callable[[str], bytes | None]) -> dict[str, str]:
    """Return the model of a Mac's CPU and its instruction sets; none if it has no such names (x86-64)."""
    brand = (sysctl("machdep.cpu.brand_string") or b"").rstrip(b"\0").decode(errors="replace")
    features_ = [
        own for name, own in _OF_MACOS.items() if _holds(sysctl(f"hw.optional.arm.FEAT_{_upper(name)}"))
    ]
    if _holds(sysctl("hw.optional.armv8_crc32")) and "crc32" not in features_:
        features_.append("crc32")
    features = {"Features": " ".join(["asimd", *sorted(features_)])} if features_ else {}
    return {"model name": brand, **features}


def _holds(answer: bytes | None) -> bool:
    return answer is not None and any(answer)


def _upper(name: str) -> str:
    return {"dotprod": "DotProd", "flagm": "FlagM", "flagm2": "FlagM2", "pauth": "PAuth"}.get(
        name, name.upper()
    )


def _ask_cpu() -> tuple[str, set[str]]:
    """Return the model of an x86-64 CPU and its instruction sets by Linux's names."""
    from archspec.cpu.detect import CpuidInfoCollector

    asked = CpuidInfoCollector()
    bits = asked.cpuid.registers_for(eax=7, ecx=1).edx if asked.highest_basic_support >= 7 else 0
    newer = {name for name, bit in _LEAF_7_1.items() if bits >> bit & 1}
    return asked.brand_string() or "", asked.features | newer


def _describe_windows(model: str, features: set[str], is_present: Callable[[int], int]) -> dict[str, str]:
    """Return the model of the CPU and the instruction sets that Windows lets programs use."""
    prefixes = tuple(
        prefix for number, names in _REGISTERS.items() if not is_present(number) for prefix in names
    )
    return {
        "model name": model,
        "flags": " ".join(sorted(name for name in features if not name.startswith(prefixes))),
    }


def _sysctl(name: str) -> bytes | None:
    """Return a value of macOS's ``sysctlbyname``; None for a name that it does not have."""
    library = ctypes.CDLL(None)
    size = ctypes.c_size_t()
    if library.sysctlbyname(name.encode(), None, ctypes.byref(size), None, 0):
        return None
    value = ctypes.create_string_buffer(size.value)
    if library.sysctlbyname(name.encode(), value, ctypes.byref(size), None, 0):
        return None
    return value.raw[: size.value]


def _read_cpuinfo() -> dict[str, str]:
    """Return the first CPU's entry of /proc/cpuinfo, as far as machine code depends on it."""
    try:
        with open(CPUINFO, errors="replace") as file:  # noqa: PTH123 - importing pathlib costs more
            lines = file.read().split("\n\n", 1)[0].splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    kept = {"model name", "flags", "Features", "CPU implementer", "CPU variant", "CPU part", "isa"}
    return {name.strip(): value.strip() for name, value in pairs if name.strip() in kept}


@cache
def _in_linux(feature: str) -> str:
    return _plain(_OTHER_NAMES.get(feature, feature))


def _plain(name: str) -> str:
    """Normalise the name of an instruction set: ``avx512vbmi2`` in LLVM is ``avx512_vbmi2`` in Linux."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
