"""Check the options of a compilation, and choose the engine.

Importing this is cheap: NumPy and TVM are imported when something is built.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnmagic.engine.executable import Executable
    from nnmagic.engine.kernel_time import KernelTime
    from nnmagic.relay.module import Module
    from nnmagic.relay.passes.pipeline import NamedPass

#: The engines; "auto" takes the one that the installed TVM has: one with Relay is too old for "relax".
ENGINES = ("auto", "relax", "relay")
OPT_LEVELS = (0, 1, 2, 3)

Target = str | Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a compilation.

    engine: one of ENGINES. target: None for this machine's CPU, else as TVM takes it. opt_level: 0 to 3.
    promote: whether dtypes are promoted as in NumPy. convert: whether calls convert arguments without loss.
    passes: passes that run before the compiler's own, as names of the library's or functions.
    Raises TypeError or ValueError for anything else.
    """

    engine: str = "auto"
    target: Target = None
    opt_level: int = 3
    promote: bool = False
    convert: bool = False
    passes: tuple[NamedPass, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.engine, str):
            raise TypeError(f"engine must be one of {_quote_names(ENGINES)}, not {self.engine!r}")
        if self.engine not in ENGINES:
            raise ValueError(f"engine must be one of {_quote_names(ENGINES)}, not {self.engine!r}")
        if isinstance(self.opt_level, bool) or not isinstance(self.opt_level, int):
            raise TypeError(f"opt_level must be 0, 1, 2 or 3, not {self.opt_level!r}")
        if self.opt_level not in OPT_LEVELS:
            raise ValueError(f"opt_level must be 0, 1, 2 or 3, not {self.opt_level}")
        for name, switch in (("promote", self.promote), ("convert", self.convert)):
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
    def pass_key(self) -> dict[str, str]:
        """What the passes are, for the key of a cache; empty if there are none."""
        if not self.passes:
            return {}
        from nnmagic.functions.pass_fingerprint import pass_fingerprint

        named = [(each.name, pass_fingerprint(each.run)) for each in self.passes]
        return {"option passes": json.dumps(named)}

    @property
    def unkeyed_pass(self) -> str | None:
        """Why no cache in memory can know the passes again; None if it can."""
        if not self.passes:
            return None
        from nnmagic.functions.pass_fingerprint import opaque_part

        for each in self.passes:
            part = opaque_part(each.run)
            if part is not None:
                return f"the pass {each.name} depends on {part}, whose content cannot be compared"
        return None

    @property
    def target_text(self) -> str:
        """The target as text, equal for equal targets."""
        return json.dumps(self.target, sort_keys=True)

    @property
    def engine_taken(self) -> str:
        """Return the engine that builds: "relax" or "relay". Raises EngineError if TVM is too old for it."""
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

    def check_target(self) -> None:
        """Raise EngineError for a target that the engine cannot build for, as far as that is known."""
        if self.target is None or self.engine_taken == "relay":
            return
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

        if self.engine_taken == "relay":
            return legacy_relay.build(module, entry, target=self.target, opt_level=self.opt_level)
        level = self.opt_level
        return relax.build(module, entry, target=self.target, opt_level=level, destinations=destinations)

    def kernel_times(
        self, module: Module, entry: str, executable: Any, values: Sequence[Any]
    ) -> list[KernelTime]:
        """Return how long each kernel of a call takes. Raises EngineError for the engine ``relay``."""
        from nnmagic.engine import engine_error

        if self.engine_taken == "relay":
            raise engine_error("the engine 'relay' does not tell how long its kernels take")
        from nnmagic.engine.relax.profiling import kernel_times

        return kernel_times(module, entry, executable, values, target=self.target, opt_level=self.opt_level)


def _quote_names(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))
