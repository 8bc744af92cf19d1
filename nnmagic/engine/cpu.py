"""Describe the CPU of this machine, as far as machine code depends on it."""

from __future__ import annotations

import hashlib
import platform
import re
from functools import cache
from pathlib import Path

#: Where Linux lists what its processors can do.
CPUINFO = Path("/proc/cpuinfo")

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
    # One word for what LLVM has eight for.
    **dict.fromkeys(("egpr", "push2pop2", "ppx", "ndd", "ccmp", "nf", "cf", "zu"), "apx"),
}

#: How the names of those begin that a compiler may use unasked; the others are for operating systems.
_OF_COMPILERS = (
    *("3dnow", "abm", "adx", "aes", "amx", "apx", "asimd", "atomics", "avx", "bf16", "bmi", "cmov", "crc32"),
    *("cx16", "f16c", "fcma", "fma", "frint", "gfni", "i8mm", "jscvt", "lahf", "lrcpc", "lwp", "mmx"),
    *("movbe", "movdir", "pclmul", "pni", "popcnt", "rdrand", "rdseed", "sha", "sm3", "sm4", "sme", "sse"),
    *("ssse", "sve", "tbm", "vaes", "vpclmul", "xop"),
)


def platform_name() -> str:
    """Return the system and the architecture, which an object file is for."""
    return f"{platform.system()} {platform.machine()}"


@cache
def processor() -> str:
    """Identify the CPU by model and instruction sets: machine code may differ between identities."""
    listed = _read_cpuinfo() or {"processor": platform.processor()}  # which starts a process on some systems
    words = [platform_name(), *(f"{name} {value}" for name, value in listed.items())]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


@cache
def instruction_sets() -> frozenset[str] | None:
    """Return the instruction sets of this CPU as Linux names them, without punctuation; None if unknown."""
    listed = _read_cpuinfo()
    words = listed.get("flags", listed.get("Features", listed.get("isa", ""))).split()
    return frozenset(map(_plain, words)) or None


def select_required_features(features: list[str]) -> list[str]:
    """Return which of LLVM's instruction sets this CPU reports itself."""
    known = instruction_sets() or frozenset()
    features_in_linux = {name for name in map(_in_linux, features) if name.startswith(_OF_COMPILERS)}
    return sorted(features_in_linux & known)


def missing_features(wanted: list[str]) -> list[str]:
    """Return the instruction sets of ``wanted`` that this CPU lacks; empty if it is unknown what it has."""
    known = instruction_sets()
    return [] if known is None else [name for name in wanted if name not in known]


def _read_cpuinfo() -> dict[str, str]:
    """Return the first CPU's entry of /proc/cpuinfo, as far as machine code depends on it."""
    if not CPUINFO.exists():
        return {}
    lines = CPUINFO.read_text(errors="replace").split("\n\n", 1)[0].splitlines()
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    kept = {"model name", "flags", "Features", "CPU part", "isa"}
    return {name.strip(): value.strip() for name, value in pairs if name.strip() in kept}


def _in_linux(feature: str) -> str:
    return _plain(_OTHER_NAMES.get(feature, feature))


def _plain(name: str) -> str:
    """Normalise the name of an instruction set: ``avx512vbmi2`` in LLVM is ``avx512_vbmi2`` in Linux."""
    return re.sub(r"[^a-z0-9]", "", name.lower())
