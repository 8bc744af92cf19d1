"""Check the options of a compilation, and choose the engine.

Importing this is cheap: NumPy and TVM are imported when something is built.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from nnmagic.engine.custom import Engine
    from nnmagic.engine.executable import Executable
    from nnmagic.engine.kernel_time import KernelTime
    from nnmagic.relay.module import Module
    from nnmagic.relay.passes.pipeline import NamedPass

#: Our engines; "auto" takes the one that the installed TVM has: one with Relay is too old for "relax".
ENGINES = ("auto", "relax", "relay", "numpy", "python")
OPT_LEVELS = (0, 1, 2, 3)

#: The environment variable by which the engine "auto" runs cells and functions as Python.
AS_PYTHON = "NNMAGIC_AS_PYTHON"

Target = str | Mapping[str, object] | None
#: Whether calls convert arguments: not at all, where no number can change, or also as NumPy's rule has it.
Convert = bool | Literal["same_kind"]


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a compilation.

    engine: one of ENGINES, the name of a registered one, or a callable.
    target: None for this machine's CPU, else as TVM takes it. opt_level: 0 to 3.
    promote: how arrays of different dtypes meet: None, integers beside floats in the dtype of the floats, all
    others as in NumPy; True, all as in NumPy; False, none in a wider float.
    convert: whether calls convert arguments without loss, or "same_kind".
    passes: passes that run before the compiler's own, as names of the library's or functions.
    debug: whether ``print`` prints values as they are computed. zero_d_arrays: whether results of rank 0 are
    arrays rather than scalars.
    Raises TypeError or ValueError for anything else.
    """

    engine: str | Engine = "auto"
    target: Target = None
    opt_level: int = 3
    promote: bool | None = None
    convert: Convert = False
    passes: tuple[NamedPass, ...] = ()
    debug: bool = True
    zero_d_arrays: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.engine, str) and not callable(self.engine):
            raise TypeError(
                f"engine must be one of {_quote_names(ENGINES)} or a callable, not {self.engine!r}"
            )
        if isinstance(self.engine, str) and self.engine not in (names := engine_names(self.engine)):
            raise ValueError(f"engine must be one of {_quote_names(names)}, not {self.engine!r}")
        if isinstance(self.opt_level, bool) or not isinstance(self.opt_level, int):
            raise TypeError(f"opt_level must be 0, 1, 2 or 3, not {self.opt_level!r}")
        if self.opt_level not in OPT_LEVELS:
            raise ValueError(f"opt_level must be 0, 1, 2 or 3, not {self.opt_level}")
        if self.promote is not None and not isinstance(self.promote, bool):
            raise TypeError(f"promote must be True, False or None, not {self.promote!r}")
        convert: object = self.convert
        if not isinstance(convert, bool) and convert != "same_kind":
            kind = ValueError if isinstance(convert, str) else TypeError
            raise kind(f"convert must be True, False or 'same_kind', not {convert!r}")
        for name in ("debug", "zero_d_arrays"):
            switch = getattr(self, name)
            if not isinstance(switch, bool):
                raise TypeError(f"{name} must be True or False, not {switch!r}")
        if self.target is not None and not isinstance(self.target, str | Mapping):
            raise TypeError(f"target must be None, a string or a dict, not {self.target!r}")
        if isinstance(self.target, str) and not self.target.strip():
            raise ValueError("target must not be empty; None stands for this machine's CPU")
        if isinstance(self.target, Mapping):
            try:  # a copy, so that the dict may change afterwards
                object.__setattr__(self, "target", json.loads(json.dumps(dict(self.target))))
            except (TypeError, ValueError) as error:
                raise TypeError(f"target must hold text, numbers, lists and dicts alone: {error}") from None
        if self.passes != ():
            from nnmagic.relay.passes.pipeline import named_passes

            object.__setattr__(self, "passes", named_passes(self.passes))

    @property
    def runs_python(self) -> bool:
        """Whether source runs as Python."""
        is_asked = os.environ.get(AS_PYTHON, "") not in ("", "0")
        return self.engine == "python" or (self.engine == "auto" and is_asked)

    @property
    def pass_key(self) -> dict[str, str]:
        """What the passes are, for the key of a cache; empty if there are none."""
        if not self.passes:
            return {}
        from nnmagic.functions.caching.pass_fingerprint import pass_fingerprint

        named = [(pass_.name, pass_fingerprint(pass_.run)) for pass_ in self.passes]
        return {"option passes": json.dumps(named)}

    @property
    def unkeyed_pass(self) -> str | None:
        """Why no cache in memory can know the passes again; None if it can."""
        if not self.passes:
            return None
        from nnmagic.functions.caching.pass_fingerprint import opaque_part

        for pass_ in self.passes:
            opaque = opaque_part(pass_.run)
            if opaque is not None:
                return f"the pass {pass_.name} depends on {opaque}, whose content cannot be compared"
        return None

    @property
    def target_text(self) -> str:
        """The target as text, equal for equal targets."""
        return json.dumps(self.target, sort_keys=True)

    @property
    def resolve_engine(self) -> str:
        """Return the name of the engine that builds. Raises EngineError if TVM is too old for it."""
        if not isinstance(self.engine, str):
            return self.engine_text
        if self.engine not in ("auto", "relax", "relay"):
            return self.engine
        from nnmagic.engine import engine_error, legacy_relay

        has_relay = legacy_relay.available()
        if self.engine == "relay" or (self.engine == "auto" and has_relay):
            return "relay"
        if has_relay:
            raise engine_error(
                "the engine 'relax' needs a newer TVM than the one that is installed, which still has Relay",
                hint="use engine='relay'",
            )
        return "relax"

    @property
    def engine_text(self) -> str:
        """The engine as text, equal for equal engines in this process."""
        return self.engine if isinstance(self.engine, str) else _identity(self.engine)

    @property
    def custom_engine(self) -> tuple[Engine, str] | None:
        """Return the engine and its name for messages, if it is none of TVM's. Raises EngineError."""
        from nnmagic.engine.custom import numpy_engine, registered_engine

        if not isinstance(self.engine, str):
            return self.engine, _name_of(self.engine)
        if self.engine in ("auto", "relax", "relay"):
            return None
        if self.engine == "python":
            from nnmagic.engine import engine_error

            message = "the engine 'python' runs the source of cells, and this has none"
            raise engine_error(message, hint="engine='numpy' interprets Relay")
        return (numpy_engine if self.engine == "numpy" else registered_engine(self.engine)), repr(self.engine)

    def check_target(self) -> None:
        """Raise EngineError for a target that the engine cannot build for, as far as that is known."""
        if self.target is None or self.resolve_engine == "relay":
            return
        self._refuse_target()
        from nnmagic.engine.relax.deferred_interrupts import run_interruptible

        run_interruptible(self._resolve_target)

    def _resolve_target(self) -> None:
        from nnmagic.engine.relax.codegen.target import resolve_target  # TVM is loaded here

        resolve_target(self.target, self.opt_level)

    def build(self, module: Module, entry: str, destinations: Sequence[int] = ()) -> Executable:
        """Return the machine code of a function of a typed module. Raises EngineError.

        ``destinations``: the parameters whose arrays it may change.
        """
        from nnmagic.engine import legacy_relay, relax
        from nnmagic.engine.tensor_types import check_tensors

        if self.resolve_engine != "relay":  # which judges itself
            check_tensors(module, entry)
        if (custom := self.custom_engine) is not None:
            from nnmagic.engine.custom import CustomExecutable

            self._refuse_target()
            return CustomExecutable(module, entry, *custom)
        if self.resolve_engine == "relay":
            return legacy_relay.build(module, entry, target=self.target, opt_level=self.opt_level)
        level = self.opt_level
        return relax.build(module, entry, target=self.target, opt_level=level, destinations=destinations)

    def kernel_times(
        self, module: Module, entry: str, executable: Any, values: Sequence[Any]
    ) -> tuple[list[KernelTime], float]:
        """Return how long each kernel of a call takes, and the call. Raises EngineError but for ``relax``."""
        from nnmagic.engine import engine_error

        if self.resolve_engine != "relax":
            raise engine_error(f"the engine {self.engine_label} does not tell how long its kernels take")
        from nnmagic.engine.target_kind import is_cuda

        if is_cuda(self.target):
            raise engine_error(
                "kernels for CUDA are not timed", hint="NVIDIA's ncu does, of a Python process"
            )
        from nnmagic.engine.relax.profiling import kernel_times

        return kernel_times(module, entry, executable, values, target=self.target, opt_level=self.opt_level)

    @property
    def engine_label(self) -> str:
        """The name of the engine in messages."""
        return _name_of(self.engine) if not isinstance(self.engine, str) else repr(self.resolve_engine)

    def _refuse_target(self) -> None:
        """Raise EngineError for a target of an engine that takes none."""
        from nnmagic.engine import engine_error

        if self.target is not None and self.resolve_engine not in ("relax", "relay"):
            raise engine_error(
                f"the engine {self.engine_label} takes no target", hint="leave out the target, or the engine"
            )


def engine_names(wanted: str = "") -> tuple[str, ...]:
    """Return the names of all engines; those of packages are looked up unless ``wanted`` is one of ours."""
    if wanted in ENGINES:
        return ENGINES
    from nnmagic.engine.custom import registered_engines

    return (*ENGINES, *(name for name in sorted(registered_engines()) if name not in ENGINES))


#: The engines that were passed as callables: each is known by its number as long as the process lives.
_CALLABLES: list[Callable[..., Any]] = []


def _identity(engine: Callable[..., Any]) -> str:
    for number, callable_ in enumerate(_CALLABLES):
        if callable_ is engine:
            return f"{_name_of(engine)}#{number}"
    _CALLABLES.append(engine)
    return f"{_name_of(engine)}#{len(_CALLABLES) - 1}"


def _name_of(engine: Callable[..., Any]) -> str:
    return str(getattr(engine, "__qualname__", type(engine).__qualname__))


def _quote_names(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))
