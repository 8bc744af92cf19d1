"""Compile PyTorch programs: ``from_torch``, and the backend of ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nnmagic.engine.custom import Engine
from nnmagic.functions.caching.build_or_load import Use
from nnmagic.functions.caching.compile_options import Options, Target
from nnmagic.functions.compile import chosen_passes, compile_module
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.definition import CacheInfo
from nnmagic.functions.stages import Stages
from nnmagic.importers.torch.programs import TorchProgram
from nnmagic.relay.module import Module
from nnmagic.relay.passes.pipeline import Pass
from nnmagic.tracebacks import hide_frames, short_errors

#: What `options=` of torch.compile may hold.
_OPTIONS = ("engine", "target", "opt_level", "passes", "cache")


class TorchFunction:
    """A compiled PyTorch program: takes and gives tensors in the program's own structure.

    Where all arrays among the arguments are NumPy's, so are the results. Buffers and arguments that the
    program updates are updated. It computes no gradients: a call with a tensor that requires one raises
    RuntimeError, except under ``torch.no_grad()``. Arguments that do not fit raise TypeError or ValueError.
    """

    def __init__(self, program: TorchProgram, function: CompiledFunction) -> None:
        self._program = program
        self._function = function
        self.__name__ = self.__qualname__ = program.name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the program; see the class."""
        return self._run(self._function, args, kwargs)

    def _run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run the program by a function of flat arrays."""
        from nnmagic.importers.torch.convention import call_program

        try:
            return call_program(self._program, function, args, kwargs)
        except (TypeError, ValueError, RuntimeError, AssertionError) as error:
            hide_frames(error)
            raise

    @property
    def function(self) -> CompiledFunction:
        """The function of flat arrays that does the work, and returns a tuple; it can be saved."""
        return self._function

    @property
    def name(self) -> str:
        """The function's name, in Relay as in Python."""
        return self._program.name

    @property
    def relay(self) -> Module:
        """The program as typed Relay."""
        return self._function.relay

    @property
    def relay_text(self) -> str:
        """The text of ``relay`` without the inferred types."""
        return self._function.relay_text

    @property
    def stages(self) -> Stages:
        """The stages of the compilation as texts, by name."""
        return self._function.stages

    @property
    def cache_info(self) -> CacheInfo:
        """Whether it was compiled or found in a cache, and why."""
        return self._function.cache_info

    def __repr__(self) -> str:
        return f"<nnmagic function {self.name} of a PyTorch program>"


@short_errors
def from_torch(
    module: object,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    name: str | None = None,
    engine: str | Engine = "auto",
    target: Target = None,
    opt_level: int = 3,
    passes: Iterable[str | Pass] = (),
    cache: bool = True,
) -> TorchFunction:
    """Compile a PyTorch program for the CPU.

    Args:
        module: a ``torch.nn.Module`` or a function, which torch.export captures; or an ExportedProgram.
        args: example arguments; sizes that ``dynamic_shapes`` does not name are fixed to theirs.
        kwargs: example arguments by keyword.
        dynamic_shapes: as ``torch.export.export`` takes it.
        name: of the function; that of the module's class by default.
        engine: as ``compile`` takes it.
        target: as ``compile`` takes it.
        opt_level: 0 to 3.
        passes: as ``compile`` takes them: they run on the Relay of the program.
        cache: whether to use the caches.

    Returns:
        The function. Its parameters are those of the module as they are now: later changes of the module are
        not seen. Buffers that the program updates are the module's own.

    Raises:
        nnmagic.importers.torch.TorchError: a RelayError with every problem of the program.
        EngineError: if it cannot be compiled.
        ImportError: if the package torch is not installed.
        TypeError, ValueError: for a wrong argument.

    """
    from nnmagic.importers.torch import from_torch as import_program

    options = _options(engine, target, opt_level, passes)  # errors before a long import
    program = import_program(module, args, kwargs, dynamic_shapes=dynamic_shapes, name=name)
    return TorchFunction(program, _build(program, options, cache=bool(cache)))


def _options(engine: str | Engine, target: Target, opt_level: int, passes: Iterable[str | Pass]) -> Options:
    """Return the options of the function that a program calls: its results become tensors."""
    return Options(engine, target, opt_level, passes=chosen_passes(passes), zero_d_arrays=True)


def _build(program: TorchProgram, options: Options, *, cache: bool) -> CompiledFunction:
    use = Use.YES if cache else Use.NO
    return compile_module(program.module, options, use, program.source, "torch")


def torch_backend(
    graph: Any,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph for ``torch.compile(f, backend="nnmagic")``, with gradients where they are needed.

    Args:
        graph: what Dynamo captured.
        example_inputs: tensors of its inputs' types; their sizes may be symbolic.
        options: ``engine``, ``target``, ``opt_level``, ``passes`` and ``cache``, as ``compile`` takes them.
        mode: must be None or "default".

    Raises:
        nnmagic.importers.torch.TorchError: with every problem of the graph.
        TypeError, ValueError: for a wrong option.

    """
    from nnmagic.importers.torch.dynamo import compile_graph

    unknown = set(options or {}) - set(_OPTIONS)
    if unknown:
        raise TypeError(
            f"the backend nnmagic has no option {sorted(unknown)[0]!r}; it has {', '.join(_OPTIONS)}"
        )
    if mode not in (None, "default"):
        raise ValueError(f"the backend nnmagic has no mode {mode!r}")
    settings = {
        "engine": "auto",
        "target": None,
        "opt_level": 3,
        "passes": (),
        "cache": True,
        **(options or {}),
    }
    chosen = _options(settings["engine"], settings["target"], settings["opt_level"], settings["passes"])
    cache = bool(settings["cache"])
    return compile_graph(graph, example_inputs, lambda program: _build(program, chosen, cache=cache))
