"""Define the magics %%tinynn, %%relay and %tinynn. The compiler is imported when a cell is first run."""

from __future__ import annotations

import inspect
import keyword
import re
import shlex
import sys
from argparse import BooleanOptionalAction, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, kwds, magic_arguments
from IPython.display import display
from traitlets import Bool, Enum, Int, TraitError, Unicode, observe, validate
from traitlets.config.loader import DeferredConfig

from nnmagic.engine.threads import set_num_threads
from nnmagic.functions.caching.compile_options import ENGINES, OPT_LEVELS, Options
from nnmagic.jupyter import manual
from nnmagic.jupyter.cell_output import SHOWN, parse_show_option, render_cell
from nnmagic.jupyter.changes import BoundCell, Changes, remember_cell
from nnmagic.jupyter.errors import MagicError, hide_internal_frames, show_all_frames, show_interrupt
from nnmagic.jupyter.progress import show_progress
from nnmagic.jupyter.settings import directory_of, find_engine, passes_of, problem, target_of
from nnmagic.tracebacks import show_frames, shows_frames, with_frames

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell
    from traitlets.config import Config

    from nnmagic.diagnostics import Source

#: A cell of functions below a single percent sign.
_DEFINES = re.compile(r"\s*%tinynn[ \t]*\n(?:.*\n)*?(?:@|def )")

_CELL_OPTIONS = (
    argument(
        "-o",
        "--output",
        metavar="NAME",
        help="also assign the cell's last function (of %%%%relay: @main) to NAME",
    ),
    argument(
        "--engine",
        metavar="E",
        help=f"the engine that runs it: {', '.join(ENGINES)}, or a function that is one; default: auto",
    ),
    argument(
        "--target",
        metavar="T",
        help="TVM's target, as JSON in quotes, or cuda, for the first GPU; default: this machine's CPU",
    ),
    argument("--opt-level", metavar="N", help="the optimisation level, 0 to 3; default: 3"),
    argument(
        "--promote",
        action=BooleanOptionalAction,
        help="let all dtypes meet as in NumPy, integers and floats too; --no-promote: none in a wider float "
        "(%%%%tinynn)",
    ),
    argument(
        "--convert",
        nargs="?",
        const=True,
        metavar="same_kind",
        help="let calls convert arguments to the parameters' dtypes where no number can change; same_kind: "
        "also to narrower dtypes and from integers to floats, as NumPy's casting='same_kind' does",
    ),
    argument(
        "--debug",
        action=BooleanOptionalAction,
        default=True,
        help="let print show values as they are computed (%%%%tinynn); --no-debug refuses it",
    ),
    argument(
        "--zero-d-arrays",
        action="store_true",
        help="return results of rank 0 as arrays, not as NumPy scalars",
    ),
    argument(
        "--passes",
        metavar="NAMES",
        help="passes to run on the Relay first, a comma-separated list of functions or library passes",
    ),
    argument(
        "--show",
        metavar="STAGES",
        help=f"what to show, a comma-separated list; default: relay; stages: {', '.join(SHOWN)}",
    ),
    argument("-q", "--quiet", action="store_true", help="show nothing"),
    argument("-f", "--force", action="store_true", help="compile even if the cache has the cell"),
    argument("--no-cache", action="store_true", help="do not use the cache"),
    argument("-v", "--verbose", action="store_true", help="show what the cache did, and how long it took"),
    argument("--tb", action="store_true", help="show errors with all frames, to debug nnmagic"),
    argument("-h", "--help", action="store_true", help="show this page and exit"),
)


def _cell_options(method: Callable[..., object]) -> Callable[..., object]:
    """Add the options that both cell magics have."""
    for option in reversed(_CELL_OPTIONS):
        method = option(method)
    return method


@magics_class
class TinyNNMagics(Magics):  # type: ignore[misc]  # IPython is untyped here
    """Settings of %%tinynn and %%relay; an option on the magic's line overrides them."""

    engine = Unicode("auto", help=f"What runs compiled functions: {', '.join(ENGINES)}.").tag(config=True)
    target = Unicode(
        None, allow_none=True, help="TVM's target, as a JSON object; None for this machine's CPU."
    ).tag(config=True)
    opt_level = Int(3, help="The optimisation level, 0 to 3.").tag(config=True)
    promote = Bool(
        None,
        allow_none=True,
        help="Whether all dtypes meet as in NumPy, or (False) none in a wider float; None: as in NumPy, but "
        "integers and floats in the dtype of the floats.",
    ).tag(config=True)
    convert = Enum(
        (False, True, "same_kind"),
        default_value=False,
        help="Whether calls convert arguments to the parameters' dtypes where no number can change, or "
        "'same_kind': as NumPy's rule of this name allows.",
    ).tag(config=True)
    zero_d_arrays = Bool(
        default_value=False, help="Whether results of rank 0 are arrays rather than NumPy scalars."
    ).tag(config=True)
    show = Unicode("relay", help=f"What a cell shows: a comma-separated list of {', '.join(SHOWN)}.").tag(
        config=True
    )
    quiet = Bool(default_value=False, help="Whether a cell shows nothing.").tag(config=True)
    cache = Bool(default_value=True, help="Whether cells use the cache.").tag(config=True)
    cache_mb = Int(
        None,
        allow_none=True,
        help="The size limit of the disk cache in MB, 0 for none; None for NNMAGIC_CACHE_MB, or 512.",
    ).tag(config=True)
    cache_dir = Unicode(
        None,
        allow_none=True,
        help="The directory of the disk cache; None for NNMAGIC_CACHE_DIR, or the system's own for caches.",
    ).tag(config=True)
    num_threads = Int(
        None, allow_none=True, help="How many threads compiled functions use; None for all cores."
    ).tag(config=True)
    preload = Bool(
        default_value=True,
        help="Whether loading the extension in a kernel or terminal also begins to import the compiler.",
    ).tag(config=True)
    tb = Bool(default_value=False, help="Whether errors show the frames inside nnmagic, to debug it.").tag(
        config=True
    )

    warn_changed = Bool(
        default_value=True, help="Whether a warning says that a function is older than what it captured."
    ).tag(config=True)

    def __init__(self, shell: InteractiveShell) -> None:
        self._refused: list[str] = []
        self._changes: Changes | None = None
        self._bound: dict[str, object] = {}
        super().__init__(shell=shell)  # takes what the shell's configuration says
        for text in self._refused:
            sys.stderr.write(f"{text}\n")

    def update_config(self, config: Config) -> None:
        """Apply what ``%config`` sets. Raises TraitError for an invalid value; the old one stays."""
        self._refused.clear()
        super().update_config(config)
        if self._refused:
            raise TraitError("\n".join(self._refused))

    def _load_config(self, cfg: Config, *names: Any, **traits: Any) -> None:
        """Load the settings of a configuration, and replace its invalid values.

        The configuration is the shell's, too, which would hand it to each ``%reload_ext``.
        """
        section = cfg.get(type(self).__name__, {})
        for name in section.keys() & self.trait_names(config=True):
            value = section[name]
            if isinstance(value, DeferredConfig):  # of a command line
                value = value.get_value(self.traits()[name])
            reason = problem(name, value, self.shell.user_ns)
            if reason is not None:
                section[name] = getattr(self, name)
                message = f"TinyNNMagics.{name} cannot be {value!r}: {reason} (it stays {section[name]!r})"
                self._refused.append(message)
        super()._load_config(cfg, *names, **traits)
        for name in [key for key in section if key not in self.trait_names()]:
            del section[name]  # it has warned of it

    @validate("*")
    def _check_value(self, proposal: dict[str, Any]) -> object:
        name, value = proposal["trait"].name, proposal["value"]
        reason = (
            problem(name, value, self.shell.user_ns) if proposal["trait"].metadata.get("config") else None
        )
        if reason is not None:
            raise TraitError(f"TinyNNMagics.{name} cannot be {value!r}: {reason}")
        return value

    @magic_arguments("%tinynn")
    @kwds(epilog=manual.TINYNN)
    @_cell_options
    @no_var_expand
    @cell_magic("tinynn")
    def tinynn_cell(self, line: str, cell: str) -> None:
        """Compile the tensor functions of this cell and bind them.

        Each function whose name does not begin with `_` becomes a compiled function, which takes and returns
        NumPy arrays; each such class becomes a data type with constructors. Shows the Relay text. If there
        is an error, nothing is bound.
        """
        from nnmagic.diagnostics import Source

        options = _parse_line(self.tinynn_cell, line)
        self._run(options, Source("<tinynn>", cell, first_line=2), "tinynn")

    @magic_arguments("%relay")
    @kwds(epilog=manual.RELAY)
    @_cell_options
    @no_var_expand
    @cell_magic("relay")
    def relay_cell(self, line: str, cell: str) -> None:
        """Compile the Relay functions of this cell and bind them.

        Takes a module's text, with or without its version line. Each function whose name does not begin with
        `_` becomes a compiled function. If there is an error, nothing is bound.
        """
        options = _parse_line(self.relay_cell, line)
        self._run(options, relay_source(cell), "relay")

    @no_var_expand
    @line_magic("tinynn")
    def tinynn_line(self, line: str) -> None:
        """Look at compiled functions, operators and the cache.

        %tinynn show NAME [STAGE,...]   show a function's Relay, or other stages
        %tinynn ops [PATTERN ...]       search the functions and operators
        %tinynn cache [--clear]         show or clear the caches
        %tinynn profile CALL            time a call, kernel by kernel
        %tinynn step CALL               run a call value by value, to find where a NaN came from
        %tinynn why NAME                say how its loops and kernels run, line by line, and what costs
        %tinynn rerun                   compile again what is older than what it captured
        %tinynn help [COMMAND]          explain the commands
        """
        from nnmagic.jupyter import commands

        history = getattr(self.shell.history_manager, "input_hist_raw", None) or [""]
        # With one % too few, the line is a command without a name, and Python runs the cell's
        # functions below it: nothing else would tell.
        if line.startswith("def ") or (not line.strip() and _DEFINES.match(history[-1])):
            message = "%tinynn with one % is a command; write %%tinynn in the first line, to compile the cell"
            raise MagicError(message)
        try:
            display(commands.run(line, self.shell.user_ns))
        except KeyboardInterrupt as interrupt:
            if not shows_frames():
                show_interrupt(interrupt, f"%tinynn {line} was stopped")
            raise
        except Exception as error:
            hide_internal_frames(error)
            raise

    @magic_arguments("%onnx")
    @kwds(epilog=manual.ONNX)
    @argument("file", metavar="FILE", help="the path of the model")
    @argument("-o", "--output", metavar="NAME", help="the function's name; default: that of the file")
    @argument(
        "--shape",
        metavar="INPUT=SIZES",
        action="append",
        help="the shape of an input, as in x=1,3,224,224, or with a name for a size: x=n,3,224,224",
    )
    @argument("--passes", metavar="NAMES", help="passes to run on the Relay first, as in %%%%tinynn")
    @argument("--show", metavar="STAGES", help="what to show, as in %%%%tinynn; default: relay")
    @argument("-q", "--quiet", action="store_true", help="show nothing")
    @argument("--no-cache", action="store_true", help="do not use the cache")
    @no_var_expand
    @line_magic("onnx")
    def onnx_line(self, line: str) -> None:
        """Compile an ONNX model, and bind it as a function of NumPy arrays.

        Shows its Relay text. If there is an error, nothing is bound.
        """
        from nnmagic.jupyter.onnx_magic import compile_model, render_model

        options = _parse_line(self.onnx_line, line)
        # %onnx has no such options: None stands for the settings of the magics.
        options.engine = options.target = options.opt_level = None
        _check_name(options.output)
        shown = self.show if options.show is None else options.show
        parse_show_option(shown)
        with show_progress(self.shell):
            function = compile_model(
                options, self._options(options), cache=self.cache and not options.no_cache
            )
        quiet = options.quiet or (self.quiet and options.show is None)
        output = None if quiet else render_model(function, shown)
        self.shell.push({function.name: function})
        if output is not None:
            display(output)

    def _run(self, options: Namespace, source: Source, language: str) -> None:
        if options.help:
            from nnmagic.rendering.output import Output, plain

            page = inspect.getdoc(getattr(self, f"{language}_cell")) or ""
            display(Output((plain("help", page.removeprefix("::\n\n")),)))
            return
        self._bound = {}
        try:
            with with_frames(options.tb):
                self._run_cell(options, source, language)
        except (Exception, KeyboardInterrupt) as error:
            if options.tb or shows_frames():
                show_all_frames(error, self.shell)
            elif isinstance(error, KeyboardInterrupt):
                what = "it has bound its names" if self._has_bound() else "it has bound nothing"
                show_interrupt(error, f"the %%{language} cell was stopped; {what}")
            raise

    def _has_bound(self) -> bool:
        """Return whether the cell that runs has bound its names, which it does all at once."""
        names = self._bound
        return bool(names) and all(self.shell.user_ns.get(name) is value for name, value in names.items())

    def _run_cell(self, namespace_options: Namespace, source: Source, language: str) -> None:
        """Compile, show and bind; every error comes before the first name is bound."""
        from nnmagic.functions.cells.compile_cell import compile_cell
        from nnmagic.jupyter.commands import cache_text

        output_name = _check_name(namespace_options.output)
        shown = parse_show_option(self.show if namespace_options.show is None else namespace_options.show)
        options = self._options(namespace_options)
        if options.runs_python and (language == "tinynn" or options.engine == "python"):
            self._run_as_python(namespace_options, source, language)
            return
        with show_progress(self.shell):
            cell = compile_cell(
                source,
                self.shell.user_ns,
                options,
                language=language,
                cache=self.cache and not namespace_options.no_cache,
                force=namespace_options.force,
            )
        if namespace_options.quiet or (self.quiet and namespace_options.show is None):
            shown = []
        note = cache_text(cell.cache_info) if namespace_options.verbose else None
        if note is not None and (options.passes or "passes" in shown):
            note += "".join(f"\n{function.name}: {function.passes.times()}" for function in cell.functions)
        output = render_cell(cell, shown, note)
        bound = cell.bindings
        if output_name is not None:
            if not cell.functions and not cell.specializing:
                raise MagicError(f"-o {output_name}: the cell has no function")
            bound[output_name] = cell.result
        self._bound = dict(bound)
        self.shell.push(bound)
        remember_cell(cell.functions, self.shell)
        if self._changes is None:
            self._changes = Changes(self.shell.user_ns)
        self._changes.remember(namespace_options, source, language, cell, bound)
        for warning in cell.warnings:
            sys.stderr.write(f"{warning.render(color=True)}\n")
        if output.sections:
            display(output)

    def _run_as_python(self, arguments: Namespace, source: Source, language: str) -> None:
        """Bind the functions of a cell as Python's own."""
        from nnmagic.functions.cells.python_engine import run_cell
        from nnmagic.rendering.output import Output, plain

        if language != "tinynn":
            raise MagicError("the engine python runs cells of %%tinynn; numpy interprets Relay")
        bound = run_cell(source, self.shell.user_ns)
        if arguments.output is not None and bound:
            bound[arguments.output] = list(bound.values())[-1]
        self.shell.push(bound)
        if not (arguments.quiet or self.quiet) and bound:
            text = f"functions of Python, for pdb, which nothing has checked: {', '.join(bound)}"
            display(Output((plain("python", text),)))

    def warn_of_changes(self, result: ExecutionResult) -> None:
        """Warn after a cell that mentions functions which are older than what they captured."""
        if self.warn_changed and self._changes is not None and result.info is not None:
            self._changes.warn(str(result.info.raw_cell))

    def rerun(self) -> str:
        """Compile again what is older than what it captured. Raises CompileError."""
        changes = self._changes
        done = [] if changes is None else changes.rerun(self._run_again)
        return f"compiled again: {', '.join(done)}" if done else "nothing has changed since it was compiled"

    def _run_again(self, cell: BoundCell) -> None:
        quiet = Namespace(**{**vars(cell.given), "quiet": True})
        self._run_cell(quiet, cell.source, cell.language)

    @observe("tb")
    def _show_frames(self, change: dict[str, Any]) -> None:
        show_frames(bool(change["new"]))

    @observe("num_threads")
    def _use_threads(self, change: dict[str, Any]) -> None:
        set_num_threads(change["new"])

    @observe("cache_mb", "cache_dir")
    def _use_cache(self, _change: dict[str, Any]) -> None:
        from nnmagic.cache import set_cache

        set_cache(None if self.cache_dir is None else directory_of(self.cache_dir), self.cache_mb)

    def _options(self, options: Namespace) -> Options:
        """Return the options of a line, with the settings as defaults."""
        from nnmagic.cache import disk_cache

        try:
            disk_cache()  # what the environment says may make no sense
            return Options(
                engine=find_engine(
                    self.engine if options.engine is None else options.engine, self.shell.user_ns
                ),
                target=target_of(self.target if options.target is None else options.target),
                opt_level=self.opt_level if options.opt_level is None else _level(options.opt_level),
                promote=self.promote if getattr(options, "promote", None) is None else options.promote,
                convert=getattr(options, "convert", None) or self.convert,
                passes=passes_of(getattr(options, "passes", None), self.shell.user_ns),
                debug=getattr(options, "debug", True),
                zero_d_arrays=self.zero_d_arrays or getattr(options, "zero_d_arrays", False),
            )
        except (TypeError, ValueError) as error:
            raise MagicError(str(error)) from None


def relay_source(cell: str) -> Source:
    """Return the source of a %%relay cell; adds the version line if it is missing."""
    from nnmagic.diagnostics import Source

    if "#[version" in cell:
        return Source("<relay>", cell, first_line=2)
    return Source("<relay>", f'#[version = "0.0.5"]\n{cell}', first_line=1)


def _parse_line(method: Any, line: str) -> Namespace:
    """Return the options of a magic's line, split as on POSIX: Windows' way has no single quotation marks."""
    try:
        parsed: Namespace = method.parser.parse_args(shlex.split(line, posix=False))
    except (UsageError, ValueError) as error:  # ValueError: a quotation mark that is never closed
        name, _, kind = method.__name__.rpartition("_")
        magic = f"%%{name}" if kind == "cell" else f"%{name}"
        hint = f"{magic}? lists the options"
        if (match := re.search(r"--show[ =](\S+?),?\s+(\w[\w-]*)", line)) and match[2] in SHOWN:
            hint = f"a list has no blanks: --show {match[1]},{match[2]}"
        raise MagicError(f"{error}; {hint}") from None
    for name, value in vars(parsed).items():
        if isinstance(value, str):
            setattr(parsed, name, _strip_quotes(value))
    return parsed


def _strip_quotes(text: str) -> str:
    """Strip the quotation marks around a word, which IPython leaves there."""
    quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _check_name(name: str | None) -> str | None:
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        raise MagicError(f"-o takes a variable's name, not {name!r}")
    return name


def _level(text: str) -> int:
    if text not in map(str, OPT_LEVELS):
        raise ValueError(f"--opt-level must be one of {', '.join(map(str, OPT_LEVELS))}, not {text!r}")
    return int(text)
