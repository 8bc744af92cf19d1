"""Resolve the CPU to compile for.

LLVM prints errors to stderr and falls back to a default, or aborts, and it reads options of its command line
as whatever they are said to be. A target may come from the file of somebody else. So settings are checked
before, and those that this module does not know are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import tvm
from tvm.target import codegen

from nnmagic.diagnostics import last_line
from nnmagic.engine import engine_error
from nnmagic.engine.cpu import is_instruction_set
from nnmagic.engine.relax.runtime.cuda_device import device_architecture

_HINT = 'None is this machine; another is a dict such as {"kind": "llvm", "mcpu": "skylake-avx512"}'

#: What LLVM takes for granted in code for x86-64 and for 64-bit ARM: without it LLVM ends the process.
_INDISPENSABLE = frozenset({"64bit", "64bit-mode", "cx8", "fp-armv8", "neon", "sse", "sse2", "x87"})

#: LLVM's names of systems; a vendor may stand before them.
_SYSTEMS = ("linux", "darwin", "windows")

#: LLVM's list of CPUs leaves out names that mean the same as another.
_ALIASES = {"apple-m1": "apple-a14", "apple-m2": "apple-a15", "apple-m3": "apple-a16"}


#: The GPUs for which code is generated, and the oldest that runs it, where there is none here.
_CUDA, _ARCHITECTURE = "cuda", "sm_80"

#: How much memory the threads of a block may share on every GPU without being asked.
_SHARED_BYTES = 48 << 10

#: What the values of settings may be, in words, and the test of it.
_Rule = tuple[str, Callable[[object], bool]]


def _integer(low: int, high: int) -> _Rule:
    def fits(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high

    return f"an int from {low} to {high}", fits


_TEXT: _Rule = "a string", lambda value: isinstance(value, str)

_TEXTS: _Rule = (
    "a list such as ['+avx2']",
    lambda value: isinstance(value, list | tuple) and all(isinstance(each, str) for each in value),
)

#: The settings of each kind of target.
_SETTINGS: Mapping[str, Mapping[str, _Rule]] = {
    "llvm": {
        "mcpu": _TEXT,
        "mattr": _TEXTS,
        "mtriple": _TEXT,
        "opt-level": _integer(0, 3),
        "num-cores": _integer(1, 1 << 16),
    },
    _CUDA: {
        "arch": _TEXT,
        "max_shared_memory_per_block": _integer(1, 1 << 24),
        "max_threads_per_block": _integer(1, 1 << 10),
        "thread_warp_size": _integer(1, 1 << 10),
    },
}

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


#: The machines that can be named: LLVM's triple and CPU, and features that it does not take for granted.
_EXPORTS: Mapping[str, tuple[str, str, Sequence[str]]] = {
    **{
        f"x86_64{level}": ("x86_64-unknown-linux-gnu", f"x86-64{level.replace('_', '-')}", ())
        for level in ("", "-v2", "-v3", "-v4")
    },
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", ("+neon",)),
    "riscv64": ("riscv64-unknown-linux-gnu", "generic-rv64", ("+m", "+a", "+f", "+d", "+c")),
    "wasm32": ("wasm32-unknown-unknown", "generic", ("+simd128", "+bulk-memory")),
}


def resolve_target_of_export(target: str | Mapping[str, object] | None, opt_level: int) -> tvm.target.Target:
    """Return what to compile for: this CPU, or a machine whose code does not run here.

    Args:
        target: None; a name such as ``"aarch64-linux"``, ``"x86_64-v3"``, ``"riscv64-linux"``, ``"wasm32"``;
            or TVM's dict of settings, in which ``mtriple`` names the machine.
        opt_level: 0 to 3.

    Raises:
        EngineError: if the target is unknown.

    """
    if isinstance(target, str) and not target.startswith(("{", "llvm")):
        name = target.removesuffix("-linux")
        if name not in _EXPORTS:
            known = ", ".join(_EXPORTS)
            message = f"there is no target {target!r} to export to; the targets are {known}"
            raise engine_error(message, hint='another one is a dict: {"kind": "llvm", "mtriple": ...}')
        triple, cpu, features = _EXPORTS[name]
        settings: dict[str, object] = {
            "kind": "llvm",
            "mtriple": triple,
            "mcpu": cpu,
            "mattr": list(features),
        }
        if name == "wasm32":
            settings["vector-width"] = 128
        return tvm.target.Target({**settings, "opt-level": opt_level})
    settings = {} if target is None else _settings(target)
    if settings.get("kind") == _CUDA:
        raise engine_error("code for GPUs cannot be exported", hint="leave the target out, or name a CPU")
    if "mtriple" not in settings:
        return resolve_target(target, opt_level)
    try:
        return tvm.target.Target({"opt-level": opt_level, **settings})
    except (TypeError, ValueError, RuntimeError) as error:
        raise engine_error(
            f"TVM does not know the target {target!r}: {last_line(error)}", hint=_HINT
        ) from error


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
    _check_settings(str(kind), settings)
    return settings


def _check_settings(kind: str, settings: Mapping[str, object]) -> None:
    rules = _SETTINGS[kind]
    for name, value in settings.items():
        if name == "kind":
            continue
        if name not in rules:
            raise ValueError(f"it has no setting {name!r}; its settings are {', '.join(rules)}")
        words, fits = rules[name]
        if not fits(value):
            raise ValueError(f"{name} must be {words}, not {value!r}")


def _check_architecture(settings: Mapping[str, object]) -> None:
    """Refuse another architecture or system than this machine's."""
    host_triple, triple = codegen.llvm_get_system_triple(), settings.get("mtriple")
    if triple is not None and _machine(str(triple)) != _machine(host_triple):
        raise engine_error(
            f"code for {str(triple)!r} cannot run on this machine, which is {host_triple!r}",
            hint="nnmagic compiles for the machine that it runs on; leave mtriple out",
        )


def _machine(triple: str) -> tuple[str, ...]:
    """Return the architecture, the system and its binary interface, without vendor and versions."""
    architecture, *others = triple.split("-")
    named = others if len(others) < 2 or others[0].startswith(_SYSTEMS) else others[1:]
    return (
        "aarch64" if architecture == "arm64" else architecture,  # as macOS calls it
        *(re.sub(r"[\d.]+\Z", "", name) for name in named),
    )


def _check_cpu(settings: Mapping[str, object]) -> None:
    """Refuse a CPU whose instructions this one lacks."""
    cpu = settings.get("mcpu")
    if cpu is None:
        return
    own = codegen.llvm_get_system_cpu()
    if cpu != own and _ALIASES.get(str(cpu), cpu) not in _cpus():
        raise engine_error(f"LLVM does not know the CPU {cpu!r} of this machine's architecture", hint=_HINT)
    if lacking := sorted(_INDISPENSABLE & _features(own) - _features(str(cpu))):
        message = f"LLVM compiles no code of this machine's architecture for {cpu!r}"
        raise engine_error(f"{message}: it lacks {', '.join(lacking)}", hint=_HINT)
    missing = sorted(_features(str(cpu)) - _features(own))
    lacking = [name for name in missing if is_instruction_set(name)]
    if lacking:
        raise engine_error(f"this machine cannot run code for {cpu!r}: it lacks {', '.join(lacking)}")


def _check_features(settings: Mapping[str, object]) -> None:
    """Refuse features (``+avx2``, ``-fma``) that LLVM does not know or this machine lacks."""
    setting = settings.get("mattr", ())
    assert isinstance(setting, Sequence)
    for feature in setting:
        name = feature[1:]
        if feature[:1] not in ("+", "-") or name not in _all_features():
            raise engine_error(f"LLVM does not know the feature {feature!r} (+name or -name)", hint=_HINT)
        if feature[0] == "-" and name in _INDISPENSABLE:
            raise engine_error(f"LLVM compiles no code of this machine's architecture with {feature!r}")
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
