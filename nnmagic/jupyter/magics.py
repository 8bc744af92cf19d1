"""The magics %%tinynn, %%relay and %tinynn. The compiler is imported when a cell is first run."""

from __future__ import annotations

import inspect
import keyword
import re
import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, kwds, magic_arguments, parse_argstring
from IPython.display import display
from traitlets import Bool, Int, TraitError, Unicode, observe, validate
from traitlets.config.loader import DeferredConfig

from nnmagic.engine.threads import set_num_threads
from nnmagic.frames import show_frames, shows_frames, with_frames
from nnmagic.functions.options import ENGINES, OPT_LEVELS, Options
from nnmagic.jupyter import manual
from nnmagic.jupyter.cell_output import SHOWN, shown_cell, shown_list
from nnmagic.jupyter.errors import MagicError, hide_frames_around_typed, show_all_frames, show_interrupt
from nnmagic.jupyter.function_origin import remember_cell
from nnmagic.jupyter.progress import shown_progress
from nnmagic.jupyter.settings import directory_of, problem, target_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from nnmagic.diagnostics import Source

_CELL_OPTIONS = (
    argument(
        "-o",
        "--output",
        metavar="NAME",
        help="also assign the cell's last function (of %%%%relay: @main) to NAME",
    ),
    argument("--engine", metavar="E", help=f"what runs it, one of {', '.join(ENGINES)}; default: auto"),
    argument(
        "--target",
        metavar="T",
        help="TVM's target, as a JSON object in quotes; default: this machine's CPU",
    ),
    argument("--opt-level", metavar="N", help="how hard to optimise, 0 to 3; default: 3"),
    argument(
        "--show",
        metavar="STAGES",
        help=f"what to show, a comma list; default: relay; stages: {', '.join(SHOWN)}",
    ),
    argument("-q", "--quiet", action="store_true", help="show nothing"),
    argument("-f", "--force", action="store_true", help="compile even where the cache has it"),
    argument("--no-cache", action="store_true", help="neither look into the cache nor put the result there"),
    argument("-v", "--verbose", action="store_true", help="say what the cache did and how long it took"),
    argument("--tb", action="store_true", help="show errors with all frames, for developers of nnmagic"),
    argument("-h", "--help", action="store_true", help="show this page, and do nothing else"),
)


def _cell_options(method: Callable[..., object]) -> Callable[..., object]:
    """Gives a cell magic the options that both of them have."""
    for option in reversed(_CELL_OPTIONS):
        method = option(method)
    return method


@magics_class
class TinyNNMagics(Magics):  # type: ignore[misc]  # IPython is untyped here
    """Settings of %%tinynn and %%relay; an option on the magic's line goes before them."""

    engine = Unicode("auto", help=f"What runs compiled functions: {', '.join(ENGINES)}.").tag(config=True)
    target = Unicode(
        None, allow_none=True, help="TVM's target, as a JSON object; None for this machine's CPU."
    ).tag(config=True)
    opt_level = Int(3, help="How hard to optimise, 0 to 3.").tag(config=True)
    show = Unicode("relay", help=f"What a cell shows, a comma list of {', '.join(SHOWN)}.").tag(config=True)
    quiet = Bool(default_value=False, help="Whether a cell shows nothing.").tag(config=True)
    cache = Bool(default_value=True, help="Whether cells use the cache.").tag(config=True)
    cache_mb = Int(
        None,
        allow_none=True,
        help="How many MB the cache on disk may have, 0 for none; None for NNMAGIC_CACHE_MB, or 512.",
    ).tag(config=True)
    cache_dir = Unicode(
        None,
        allow_none=True,
        help="Where the cache on disk is; None for NNMAGIC_CACHE_DIR, or the system's place for caches.",
    ).tag(config=True)
    num_threads = Int(
        None,
        allow_none=True,
        help="How many threads compiled functions use; None for as many as there are cores.",
    ).tag(config=True)
    tb = Bool(
        default_value=False,
        help="Whether errors of cells and of calls show the frames inside nnmagic, for its developers.",
    ).tag(config=True)

    def __init__(self, shell: InteractiveShell) -> None:
        self._refused: list[str] = []
        super().__init__(shell=shell)  # takes what the shell's configuration says
        for text in self._refused:
            sys.stderr.write(f"{text}\n")

    def update_config(self, config: Config) -> None:
        """What ``%config`` calls. Raises TraitError for what a setting cannot be; it stays as it was."""
        self._refused.clear()
        super().update_config(config)
        if self._refused:
            raise TraitError("\n".join(self._refused))

    def _load_config(self, cfg: Config, *names: Any, **traits: Any) -> None:
        """Takes the settings of a configuration, and corrects it where it has one that cannot be.

        The configuration is the shell's, too, which would hand it to each ``%reload_ext``.
        """
        section = cfg.get(type(self).__name__, {})
        for name in section.keys() & self.trait_names(config=True):
            value = section[name]
            if isinstance(value, DeferredConfig):  # of a command line
                value = value.get_value(self.traits()[name])
            reason = problem(name, value)
            if reason is not None:
                section[name] = getattr(self, name)
                told = f"TinyNNMagics.{name} cannot be {value!r}: {reason} (it stays {section[name]!r})"
                self._refused.append(told)
        super()._load_config(cfg, *names, **traits)
        for name in [each for each in section if each not in self.trait_names()]:
            del section[name]  # it has warned of it

    @validate("*")
    def _validated(self, proposal: dict[str, Any]) -> object:
        name, value = proposal["trait"].name, proposal["value"]
        reason = problem(name, value) if proposal["trait"].metadata.get("config") else None
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

        Each function that does not begin with `_` becomes a compiled function of that name, which takes and
        gives NumPy arrays, and each such class a data type whose constructors make values. Shows the Relay
        text. Where something is wrong, nothing is bound.
        """
        from nnmagic.diagnostics import Source

        options = _parsed(self.tinynn_cell, line)
        self._run(options, Source("<tinynn>", cell, first_line=2), "tinynn")

    @magic_arguments("%relay")
    @kwds(epilog=manual.RELAY)
    @_cell_options
    @no_var_expand
    @cell_magic("relay")
    def relay_cell(self, line: str, cell: str) -> None:
        """Compile the Relay functions of this cell and bind them.

        Takes a module's text, with or without its version line. Each function that does not begin with `_`
        becomes a compiled function of that name. Where something is wrong, nothing is bound.
        """
        options = _parsed(self.relay_cell, line)
        self._run(options, relay_source(cell), "relay")

    @no_var_expand
    @line_magic("tinynn")
    def tinynn_line(self, line: str) -> None:
        """Look at compiled functions, operators and the cache.

        %tinynn show NAME [STAGE,...]   a function's Relay, or the stages that are named
        %tinynn ops [PATTERN ...]       operators by name or summary
        %tinynn cache [--clear]         what is kept in memory and on disk
        %tinynn profile CALL            time a call, kernel by kernel
        %tinynn help [COMMAND]          all of this at length
        """
        from nnmagic.jupyter import commands

        try:
            display(commands.run(line, self.shell.user_ns))
        except KeyboardInterrupt as interrupt:
            if not shows_frames():
                show_interrupt(interrupt, f"%tinynn {line} was stopped")
            raise
        except Exception as error:
            hide_frames_around_typed(error)
            raise

    def _run(self, given: Namespace, source: Source, language: str) -> None:
        if given.help:
            from nnmagic.rendering.output import Output, plain

            page = inspect.getdoc(getattr(self, f"{language}_cell")) or ""
            display(Output((plain("help", page.removeprefix("::\n\n")),)))
            return
        try:
            with with_frames(given.tb):
                self._run_cell(given, source, language)
        except (Exception, KeyboardInterrupt) as error:
            if given.tb or shows_frames():
                show_all_frames(error, self.shell)
            elif isinstance(error, KeyboardInterrupt):
                show_interrupt(error, f"the %%{language} cell was stopped; it has bound nothing")
            raise

    def _run_cell(self, given: Namespace, source: Source, language: str) -> None:
        """Compiles, shows and binds; every error comes before the first name is bound."""
        from nnmagic.functions.compile_cell import compile_cell
        from nnmagic.jupyter.commands import cache_text

        output_name = _checked_name(given.output)
        shown = shown_list(self.show if given.show is None else given.show)
        options = self._options(given)
        with shown_progress(self.shell):
            cell = compile_cell(
                source,
                self.shell.user_ns,
                options,
                language=language,
                cache=self.cache and not given.no_cache,
                force=given.force,
            )
        if given.quiet or (self.quiet and given.show is None):
            shown = []
        note = cache_text(cell.cache_info) if given.verbose else None
        output = shown_cell(cell, shown, note)
        bound = cell.bound
        if output_name is not None:
            if not cell.functions:
                raise MagicError(f"-o {output_name}: the cell has no function")
            bound[output_name] = cell.result
        self.shell.push(bound)
        remember_cell(cell.functions, self.shell)
        for warning in cell.warnings:
            sys.stderr.write(f"{warning.render(color=True)}\n")
        if output.sections:
            display(output)

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

    def _options(self, given: Namespace) -> Options:
        """The options of a line, and the settings where it has none."""
        from nnmagic.cache import disk_cache

        try:
            disk_cache()  # what the environment says may make no sense
            return Options(
                engine=self.engine if given.engine is None else given.engine,
                target=target_of(self.target if given.target is None else given.target),
                opt_level=self.opt_level if given.opt_level is None else _level(given.opt_level),
            )
        except (TypeError, ValueError) as error:
            raise MagicError(str(error)) from None


def relay_source(cell: str) -> Source:
    """The body of a %%relay cell; the version line, which Relay wants, may be left out."""
    from nnmagic.diagnostics import Source

    if "#[version" in cell:
        return Source("<relay>", cell, first_line=2)
    return Source("<relay>", f'#[version = "0.0.5"]\n{cell}', first_line=1)


def _parsed(method: Callable[..., object], line: str) -> Namespace:
    try:
        parsed: Namespace = parse_argstring(method, line)
    except (UsageError, ValueError) as error:  # ValueError: a quotation mark that is never closed
        magic = method.__name__.removesuffix("_cell")
        hint = f"%%{magic}? lists the options"
        if (found := re.search(r"--show[ =](\S+?),?\s+(\w[\w-]*)", line)) and found[2] in SHOWN:
            hint = f"a list has no blanks: --show {found[1]},{found[2]}"
        raise MagicError(f"{error}; {hint}") from None
    for name, value in vars(parsed).items():
        if isinstance(value, str):
            setattr(parsed, name, _unquoted(value))
    return parsed


def _unquoted(text: str) -> str:
    """A word without the quotation marks around it, which IPython leaves there."""
    quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _checked_name(name: str | None) -> str | None:
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        raise MagicError(f"-o takes a variable's name, not {name!r}")
    return name


def _level(text: str) -> int:
    if text not in map(str, OPT_LEVELS):
        raise ValueError(f"--opt-level must be one of {', '.join(map(str, OPT_LEVELS))}, not {text!r}")
    return int(text)
