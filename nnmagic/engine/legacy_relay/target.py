"""Resolve the CPU that a TVM with Relay compiles for."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm.target import codegen

from nnmagic.engine import engine_error

_HINT = 'None is this machine; another CPU is such as "llvm -mcpu=skylake-avx512"'

_ARCHITECTURES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64", "i386": "i686"}
_SYSTEMS = {"linux": "unknown-linux-gnu", "darwin": "apple-darwin", "win32": "pc-windows-msvc"}


def host_triple() -> str:
    """Return LLVM's triple of this machine; a TVM built elsewhere has another default."""
    return f"{_architecture(platform.machine())}-{_SYSTEMS.get(sys.platform, 'unknown-unknown')}"


def resolve_target(target: str | Mapping[str, object] | None) -> Any:
    """Return a TVM target whose code runs here. Raises EngineError for another."""
    if "cl-opt" in str(target):  # LLVM's own options: it reads their values unchecked, or ends the process
        raise engine_error(f"the target {target!r} has options of LLVM's command line", hint=_HINT)
    try:
        chosen = tvm.target.Target("llvm" if target is None else _plain(target))
    except (ValueError, TypeError, tvm.TVMError) as error:
        reason = str(error).strip().rpartition("\n")[2]
        raise engine_error(f"TVM does not know the target {target!r}: {reason}", hint=_HINT) from error
    if chosen.kind.name != "llvm":
        raise engine_error(f"the target must be a CPU, 'llvm', not {chosen.kind.name!r}", hint=_HINT)
    triple = chosen.attrs.get("mtriple")
    if triple is None:
        settings = {key: value for key, value in chosen.export().items() if key not in ("tag", "keys")}
        chosen = tvm.target.Target({**settings, "mtriple": host_triple()})
    elif _architecture(str(triple).partition("-")[0]) != _architecture(platform.machine()):
        raise engine_error(f"this machine, a {platform.machine()}, cannot run code for {triple}", hint=_HINT)
    _check_runs_here(chosen)
    return chosen


def _check_runs_here(target: Any) -> None:
    """Refuse machine code with instructions that this CPU lacks, as far as LLVM and Linux tell."""
    features_of = getattr(codegen, "llvm_get_cpu_features", None)
    listed = Path("/proc/cpuinfo")
    flags_line = re.search(r"^flags\s*:(.*)$", listed.read_text(), re.MULTILINE) if listed.exists() else None
    cpu = target.attrs.get("mcpu")
    if features_of is None or flags_line is None or not cpu:
        return
    flags = {_plain_feature(flag) for flag in flags_line[1].split()}
    sets = [str(name) for name in features_of(target) if str(name).startswith(("avx", "amx", "fma", "sse4"))]
    lacking = sorted(name for name in sets if _plain_feature(name) not in flags)
    if lacking:
        raise engine_error(f"this machine cannot run code for {str(cpu)!r}: it lacks {', '.join(lacking)}")


def _plain_feature(name: str) -> str:
    """Normalise a feature's name: ``avx512_vnni`` becomes ``avx512vnni``."""
    return re.sub(r"[._-]", "", name)


def _plain(target: str | Mapping[str, object]) -> str | dict[str, object]:
    return target if isinstance(target, str) else dict(target)


def _architecture(name: str) -> str:
    return _ARCHITECTURES.get(name.lower(), name.lower())
