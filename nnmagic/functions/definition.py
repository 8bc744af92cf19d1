"""Define a compiled function before it is called: its program, options and machine code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING

from nnmagic.cache import Content
from nnmagic.diagnostics import Source
from nnmagic.engine.executable import Executable, kernels_of
from nnmagic.engine.target_kind import is_cuda
from nnmagic.fork_safety import Lock
from nnmagic.functions.arguments.calls import CallAdapter, call_of
from nnmagic.functions.arguments.complex_arrays import ComplexExecutable
from nnmagic.functions.cached_property import Cached
from nnmagic.functions.caching.build_or_load import Origin, Use, build, content_of, key_fields
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.cells.python_source import source_holder
from nnmagic.functions.passes import Passes
from nnmagic.functions.stages import CUDA_STAGE, STAGES, Stages, tree_text
from nnmagic.relay.complex_numbers.lowering import lower_complex, mentions_complex
from nnmagic.relay.module import Module
from nnmagic.relay.passes.pipeline import PassRun, run_passes
from nnmagic.tinynn.parameters import ParameterInfo
from nnmagic.tinynn.program import DataTypeInfo
from nnmagic.tracebacks import noting_interrupts, short_errors

if TYPE_CHECKING:
    from nnmagic.functions.data_types import DataType
    from nnmagic.rendering.linked import LinkedView

#: One function is built at a time, as TVM's builders want it, too.
_BUILDING = Lock()


class _Types(dict[str, "DataType"]):
    """Data types by name; a KeyError lists them."""

    @short_errors
    def __missing__(self, name: str) -> DataType:
        known = f"its data types are {', '.join(self)}" if self else "it uses none"
        raise KeyError(f"the function has no data type {name!r}; {known}")


def text_without_types(module: Module) -> str:
    """Return the text of a module without inferred types; signatures keep their result's type."""
    from nnmagic.relay.infer import erase_types

    return str(erase_types(module))


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """Where a function's code came from.

    Attributes:
        hit: ``"memory"``, ``"disk"``, or None if it was compiled.
        key: the hash of everything that it depends on.
        seconds: how long that took.
        why: why it was compiled, or where it was found.

    """

    hit: str | None
    key: str
    seconds: float
    why: str


@dataclass(frozen=True, eq=False)
class Definition:
    """A function as it is defined.

    Attributes:
        name: of its global in ``module``.
        module: typed, with what the function needs and no more; its tensors may be complex.
        source: the whole cell.
        text: the function's own source.
        language: ``"tinynn"``, ``"relay"``, or, with a listing as source, ``"onnx"`` or ``"torch"``.
        key: equal only for the same definition with the same options.
        parameters: kinds and defaults, for a function of a cell.
        infos: the declarations of its data types.
        use: how the cache on disk is used.
        carried: the machine code in the function's file.

    """

    name: str
    module: Module
    source: Source
    text: str
    language: str
    doc: str | None
    options: Options
    key: str
    parameters: tuple[ParameterInfo, ...] = ()
    infos: Mapping[str, DataTypeInfo] = field(default_factory=dict)
    use: Use = Use.YES
    carried: Content | None = None

    @Cached
    def call(self) -> CallAdapter:
        """Return how it is called."""
        return call_of(self.name, self.module, self.parameters)

    @Cached
    def optimize(self) -> tuple[Module, list[PassRun]]:
        """Return its module after the passes that were asked for, and what each did. Raises RelayError."""
        if not self.options.passes:
            return self.module, []
        runs: list[PassRun] = []
        return run_passes(self.module, self.options.passes, keep=[self.name], runs=runs), runs

    @Cached
    def relay(self) -> Module:
        """Return what is compiled: its module after ``passes``, with complex tensors as pairs of floats."""
        return lower_complex(self.optimize[0])

    @Cached
    def pass_runs(self) -> tuple[PassRun, ...]:
        """Return what each pass does, those that were asked for and then the compiler's own."""
        if self.options.resolve_engine != "relax":
            return tuple(self.optimize[1])
        from nnmagic.engine import relax

        own = relax.pass_runs(self.relay, self.name, self.options.opt_level)
        return (*self.optimize[1], *own)

    @property
    def module_to_export(self) -> Module:
        """Return the module that is exported: complex parameters and results stay, and are refused."""
        function = self.module.functions[self.name]
        types = [function.ret_type, *(param.checked_type for param in function.params)]
        return self.module if any(map(mentions_complex, types)) else self.relay

    @Cached
    def line(self) -> int:
        """Return the line of its source where it begins."""
        text = self.source.text
        head = re.search(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+@?{re.escape(self.name)}\b", text, re.MULTILINE)
        return self.source.first_line + (text.count("\n", 0, head.start()) if head else 0)

    @property
    def lines(self) -> range:
        """Return the numbers of its lines."""
        return range(self.line, self.line + len(self.text.rstrip().splitlines()))

    @Cached
    def types(self) -> Mapping[str, DataType]:
        """Return the data types of its module, except that of assertions."""
        types = self.module.types
        if not types:
            return MappingProxyType(_Types({}))
        from nnmagic.functions.data_types import data_type
        from nnmagic.tinynn.namespace.name_resolution import is_assertion

        made = {
            name: data_type(name, types, self.infos) for name, data in types.items() if not is_assertion(data)
        }
        return MappingProxyType(_Types(made))

    @Cached
    def stages(self) -> Stages:
        """Return its stages."""
        makers: dict[str, Callable[[], str]] = {
            "source": lambda: self.text,
            "tree": self._tree,
            "relay": lambda: self.relay_text,
            "relay-typed": lambda: str(self.relay),
            "passes": lambda: Passes(self.pass_runs).text(),
            "linked": lambda: str(self.link_stages),
        }
        if self.language != "tinynn":
            del makers["tree"]
        names: tuple[str, ...] = STAGES
        if is_cuda(self.options.target):
            names = (*STAGES[: STAGES.index("llvm")], CUDA_STAGE)
        makers |= {name: partial(self._engine_stage, name) for name in names if name not in ("tree", *makers)}
        return Stages({name: makers[name] for name in names if name in makers})

    @Cached
    def link_stages(self) -> LinkedView:
        """Return its source, Relay, TIR and assembly, linked line by line. Raises EngineError."""
        from nnmagic.rendering.linked import LinkedView, MachineCode

        codes = [
            MachineCode(kernel.name, kernel.origins, kernel.tir, kernel.asm)
            for kernel in kernels_of(self.executable)
        ]
        return LinkedView(self.relay, self.source, self.lines, codes)

    @Cached
    def relay_text(self) -> str:
        """Return the text of its module without inferred types."""
        return text_without_types(self.relay)

    @Cached
    def source_holder(self) -> FunctionType | ModuleType:
        """Return what Python's tools read its source from."""
        return source_holder(self.name, self.text, self.doc, self.key)

    @Cached
    def _build_result(self) -> tuple[Executable, Origin]:
        destinations = self.call.destinations
        run, origin = build(self.relay, self.name, self.options, self.use, self.carried, destinations)
        is_complex = self.relay is not self.optimize[0]
        return (ComplexExecutable(run, self.module, self.name) if is_complex else run), origin

    @property
    def executable(self) -> Executable:
        """Return the machine code, built when first asked for. Raises EngineError."""
        with noting_interrupts(), _BUILDING:  # Cached alone lets two threads build
            return self._build_result[0]

    @property
    def built_executable(self) -> Executable | None:
        """Return the machine code if it is built, else None."""
        return self._build_result[0] if "_build_result" in self.__dict__ else None

    @property
    def origin(self) -> Origin | None:
        """Return the origin of the machine code; None if there is none yet."""
        return self._build_result[1] if "_build_result" in self.__dict__ else None

    @property
    def content(self) -> Content | None:
        """Return the machine code as a file carries it; None if there is none that can be carried."""
        if "_build_result" not in self.__dict__:
            return self.carried
        artifact = self.executable.artifact
        if artifact is None:
            return None
        content = content_of(artifact, self.code_dependencies, self.name, 0.0)
        raised = [[each.message, each.kind] for each in getattr(self.executable, "assertions", ())]
        return Content({**content.header, "assertions": raised}, content.files)

    @Cached
    def code_dependencies(self) -> Mapping[str, str]:
        """Return what its machine code depends on, by name."""
        return key_fields(self.relay, self.name, self.options, self.call.destinations)

    def _engine_stage(self, name: str) -> str:
        return self.executable.stage(name)

    def _tree(self) -> str:
        from nnmagic.diagnostics import Diagnostics, TinyNNError
        from nnmagic.tinynn.syntax import parse

        diagnostics = Diagnostics()
        tree = parse(self.source, diagnostics)
        diagnostics.raise_if_any(TinyNNError)
        return tree_text(tree.funcs[self.name] if tree is not None else None)
