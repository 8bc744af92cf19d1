"""Resolve the CPU to compile for.

LLVM prints errors to stderr and falls back to a default, or aborts; so settings are checked before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache

import tvm
from tvm.target import codegen

from nnmagic.diagnostics import last_line
from nnmagic.engine import engine_error
from nnmagic.engine.cpu import is_instruction_set
from nnmagic.engine.relax.runtime.cuda_device import device_architecture

_HINT = 'None is this machine; another is a dict such as {"kind": "llvm", "mcpu": "skylake-avx512"}'

#: LLVM's list of CPUs leaves out names that mean the same as another.
_ALIASES = {"apple-m1": "apple-a14", "apple-m2": "apple-a15", "apple-m3": "apple-a16"}


#: The GPUs for which code is generated, and the oldest that runs it, where there is none here.
_CUDA, _ARCHITECTURE = "cuda", "sm_80"

#: How much memory the threads of a block may share on every GPU without being asked.
_SHARED_BYTES = 48 << 10

#: Other kinds of targets of TVM that are GPUs.
_GPUS = frozenset({"hip", "metal", "nvptx", "opencl", "rocm", "vulkan", "webgpu"})


def resolve_target(target: str | Mapping[str, object] | None, opt_level: int) -> tvm.target.Target:
    """Return what to compile for: this CPU, or the CPU or CUDA that the caller names.

    Args:
        target: None, a kind (``"llvm"``), TVM's JSON text or its dict of settings.
        opt_level: 0 to 3.

    Raises:
        EngineError: if the target is unknown or this machine cannot run its code.

    """
    settings: dict[str, object] = {}
    try:
        settings = {} if target is None else _settings(target)
        _check_architecture(settings)
        _check_cpu(settings)
        _check_features(settings)
        host = {"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "opt-level": opt_level}
        if settings.get("kind") == _CUDA:
            return tvm.target.Target(tvm.target.Target(settings), tvm.target.Target(host))
        return tvm.target.Target({**host, **settings})
    except (TypeError, ValueError, RuntimeError) as error:
        reason = last_line(error)
        raise engine_error(f"TVM does not know the target {target!r}: {reason}", hint=_HINT) from error


def _settings(target: str | Mapping[str, object]) -> dict[str, object]:
    if isinstance(target, str):
        settings = json.loads(target) if target.startswith("{") else {"kind": target}
    else:
        settings = dict(target)
    kind = settings.get("kind")
    if kind in _GPUS:
        message = f"nnmagic compiles for CPUs and CUDA, and the target {kind!r} is another GPU's"
        raise engine_error(message, hint="leave the target out, or name 'cuda'")
    if kind == _CUDA:
        settings.setdefault("arch", device_architecture() or _ARCHITECTURE)
        settings.setdefault("max_shared_memory_per_block", _SHARED_BYTES)
        if not re.fullmatch(r"sm_[1-9][0-9]+[a-z]?", str(settings["arch"])):
            raise ValueError(f"arch must be like 'sm_80', not {settings['arch']!r}")
    elif kind != "llvm":
        raise ValueError(f"the kind must be 'llvm', a CPU, or 'cuda', not {kind!r}")
    return settings


def _check_architecture(settings: Mapping[str, object]) -> None:
    """Refuse another architecture or system than this machine's."""
    own, given = codegen.llvm_get_system_triple(), settings.get("mtriple")
    if given is None:
        return
    parts, wanted = str(given).split("-"), own.split("-")
    system = next((name for name in ("linux", "darwin", "windows") if name in own), wanted[-1])
    if _architecture(parts[0]) != _architecture(wanted[0]) or system not in str(given):
        raise engine_error(
            f"code for {str(given)!r} cannot run on this machine, which is {own!r}",
            hint="nnmagic compiles for the machine that it runs on; leave mtriple out",
        )


def _architecture(name: str) -> str:
    return "aarch64" if name == "arm64" else name  # as macOS calls it


def _check_cpu(settings: Mapping[str, object]) -> None:
    """Refuse a CPU whose instructions this one lacks."""
    cpu = settings.get("mcpu")
    if cpu is None:
        return
    own = codegen.llvm_get_system_cpu()
    if cpu != own and _ALIASES.get(str(cpu), cpu) not in _cpus():
        raise engine_error(f"LLVM does not know the CPU {cpu!r} of this machine's architecture", hint=_HINT)
    missing = sorted(_features(str(cpu)) - _features(own))
    lacking = [name for name in missing if is_instruction_set(name)]
    if lacking:
        raise engine_error(f"this machine cannot run code for {cpu!r}: it lacks {', '.join(lacking)}")


def _check_features(settings: Mapping[str, object]) -> None:
    """Refuse features (``+avx2``, ``-fma``) that LLVM does not know or this machine lacks."""
    given = settings.get("mattr", ())
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(f"mattr must be a list such as ['+avx2'], not {given!r}")
    for feature in map(str, given):
        name = feature[1:]
        if feature[:1] not in ("+", "-") or name not in _all_features():
            raise engine_error(f"LLVM does not know the feature {feature!r} (+name or -name)", hint=_HINT)
        if feature[0] == "+" and name not in _features(codegen.llvm_get_system_cpu()):
            raise engine_error(f"this machine cannot run code with {feature!r}: it lacks {name}")


@cache
def _cpus() -> frozenset[str]:
    return frozenset(map(str, codegen.llvm_get_cpu_archlist(tvm.target.Target("llvm"))))


@cache
def _features(cpu: str) -> frozenset[str]:
    return frozenset(
        map(str, codegen.llvm_get_cpu_features(tvm.target.Target({"kind": "llvm", "mcpu": cpu})))
    )


@cache
def _all_features() -> frozenset[str]:
    return frozenset().union(*map(_features, _cpus()))
