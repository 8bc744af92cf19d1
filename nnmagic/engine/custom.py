"""Run programs on engines that users supply: callables from a Relay module to a Python callable.

An engine takes a typed ``relay.Module`` whose function to run is ``@main``, and returns a callable that takes
the arguments as NumPy arrays and returns the result. It is passed as ``engine=``, or registered by name as an
entry point of the group ``nnmagic.engines``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from nnmagic.diagnostics import InternalError, closest, kind_of
from nnmagic.engine import EngineError, engine_error
from nnmagic.relay.module import Module

#: What an engine is: it builds a typed module, and returns what runs it on NumPy arrays.
Engine = Callable[[Module], Callable[..., Any]]

#: The entry point group in which packages register engines.
GROUP = "nnmagic.engines"


class CustomExecutable:
    """A program of an engine of one's own: results are checked against the function's type."""

    #: Nothing of it can be kept on disk.
    artifact = None

    def __init__(self, module: Module, entry: str, engine: Engine, name: str) -> None:
        """Build the function ``entry``. Raises EngineError if the engine fails."""
        from nnmagic.engine.arguments import Parameter

        function = module.functions[entry]
        self._name = name
        self._result = Parameter(f"the result of the engine {name}", function.result_type, module.types)
        self._parameters = [
            Parameter(
                f"%{param.name_hint}",
                param.checked_type or param.type_annotation or function.result_type,
                module.types,
            )
            for param in function.params
        ]
        try:
            self._run = engine(with_main(module, entry))
        except (EngineError, InternalError):
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise engine_error(f"the engine {name} cannot build @{entry}: {reason}") from error
        if not callable(self._run):
            raise engine_error(
                f"the engine {name} returned {kind_of(self._run)} for @{entry}",
                hint="an engine returns a callable that takes the arguments and returns the result",
            )

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Return a copy of the result. Raises what the engine's callable raises, and EngineError."""
        from nnmagic.engine.arguments import convert_argument

        dims: dict[str, int] = {}
        values = [convert_argument(*pair, dims) for pair in zip(self._parameters, arrays, strict=True)]
        result = self._run(*values)
        try:
            return _copy(convert_argument(self._result, result, dims))
        except (TypeError, ValueError) as error:
            raise engine_error(str(error)) from None

    def stage(self, name: str) -> str:
        """Return the text of a stage, if the engine's callable has a method ``stage`` of its own."""
        stage_text = getattr(self._run, "stage", None)
        if stage_text is None:
            raise engine_error(f"the engine {self._name} has no stage {name!r}")
        return str(stage_text(name))


def with_main(module: Module, entry: str) -> Module:
    """Return the module with the function to run as ``@main``; another ``@main`` gets a new name."""
    if entry == "main":
        return module
    from nnmagic.relay.expr import Expr, Function, GlobalVar
    from nnmagic.relay.structure.traverse import rewrite

    names = {entry: "main"}
    if "main" in module.functions:
        names["main"] = next(f"main_{n}" for n in range(1, 10**9) if f"main_{n}" not in module.functions)

    def rename(_old: Expr, new: Expr) -> Expr:
        if isinstance(new, GlobalVar) and new.name in names:
            return replace(new, name=names[new.name])
        return new

    functions: dict[str, Function] = {}
    for name, function in module.functions.items():
        renamed = rewrite(function, rename)
        functions[names.get(name, name)] = renamed
    return replace(module, functions=functions)


def registered_engines() -> dict[str, EntryPoint]:
    """Return the engines that packages have registered, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}


def registered_engine(name: str) -> Engine:
    """Return a registered engine. Raises EngineError for a name that no package has, or a failed import."""
    points = registered_engines()
    if name not in points:
        close = closest(name, points)
        hint = (
            f"did you mean {close!r}?" if close else f"packages register engines as entry points of {GROUP!r}"
        )
        raise engine_error(f"there is no engine {name!r}", hint=hint)
    try:
        engine = points[name].load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise engine_error(
            f"the engine {name!r} cannot be imported from {points[name].value}: {reason}"
        ) from error
    if not callable(engine):
        raise engine_error(f"the engine {name!r}, {points[name].value}, is {kind_of(engine)}, not a callable")
    return engine  # type: ignore[no-any-return]  # what the package has


def numpy_engine(module: Module) -> Callable[..., Any]:
    """Interpret a module with NumPy: the engine ``"numpy"``."""
    from nnmagic.engine.numpy import Interpreter
    from nnmagic.relay.reference import NoReferenceError

    interpreter = Interpreter(module)

    def run(*arguments: Any) -> Any:
        try:
            return interpreter.run("main", arguments)
        except NoReferenceError as error:
            raise engine_error(str(error), hint="use engine='relax'") from None

    return run


def _copy(value: Any) -> Any:
    """Return a result whose arrays belong to nobody else."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return np.array(value)
    if isinstance(value, tuple):
        return tuple(map(_copy, value))
    return value
