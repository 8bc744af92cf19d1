"""Run the commands of the line magic %tinynn."""

from __future__ import annotations

import ast
import difflib
import functools
import shlex
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nnmagic.cache import Store
from nnmagic.diagnostics import closest
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.definition import CacheInfo
from nnmagic.functions.inspection.profile import Profile
from nnmagic.functions.specializing import SpecializingFunction
from nnmagic.jupyter.cell_output import SHOWN, render_function
from nnmagic.jupyter.errors import TYPED, MagicError
from nnmagic.rendering.bar_table import Bar, bar_table
from nnmagic.rendering.output import Output, Section, plain, table

if TYPE_CHECKING:  # with the language, which a cell on disk does without
    from nnmagic.tinynn.editor.symbols import Symbol


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its usage, its summary, how many words it takes, and the function that runs it.

    whole: whether the rest of the line is one word. more: what its own page adds, a line an example.
    """

    usage: str
    summary: str
    words: range
    run: Callable[[Sequence[str], Mapping[str, object]], Output | Section]
    whole: bool = False
    more: tuple[str, ...] = ()

    @property
    def page(self) -> str:
        """The page that ``%tinynn help COMMAND`` shows."""
        lines = [f"%tinynn {self.usage}", f"  {self.summary}"]
        return "\n".join([*lines, "", *self.more] if self.more else lines)


def run(line: str, namespace: Mapping[str, object]) -> Output:
    """Run a line of %tinynn. Raises MagicError for an invalid line."""
    name, _, arguments = (line.strip() or "help").partition(" ")
    if name in _ASKING:
        name, arguments = "help", ""
    elif arguments.strip() in _ASKING:
        name, arguments = "help", name
    command = _command(name, namespace)
    try:
        words = [arguments.strip()] if command.whole and arguments.strip() else shlex.split(arguments)
    except ValueError as error:
        raise MagicError(f"{error} in {line!r}") from None
    if len(words) not in command.words:
        raise MagicError(f"usage: %tinynn {command.usage}")
    shown = command.run(words, namespace)
    return shown if isinstance(shown, Output) else Output((shown,))


def _command(name: str, namespace: Mapping[str, object]) -> Command:
    """Return the command of that name. Raises MagicError."""
    if name not in COMMANDS:
        close = f"show {name}" if name in _names(namespace) else closest(name, COMMANDS)
        hint = f"did you mean %tinynn {close}?" if close else f"its commands are {', '.join(COMMANDS)}"
        raise MagicError(f"%tinynn has no command {name!r}; {hint}")
    return COMMANDS[name]


def _show(words: Sequence[str], namespace: Mapping[str, object]) -> Output:
    if not words:
        raise MagicError(f"usage: %tinynn {COMMANDS['show'].usage}; {_hint_at_functions(namespace)}")
    name, *stages = words
    if "," in name:
        name = name.partition(",")[0]
        raise MagicError(
            f"it shows one function, and a list of stages after it: %tinynn show {name} relay,graph"
        )
    function = find_compiled_function(name, namespace)
    named = [stage for word in stages for stage in word.split(",") if stage]
    shown = [render_function(function, stage) for stage in dict.fromkeys(named or ["relay"])]
    return Output(tuple(section for item in shown for section in item.sections))


def find_compiled_function(
    name: str, namespace: Mapping[str, object]
) -> CompiledFunction | SpecializingFunction:
    """Return the compiled function of that name. Raises MagicError."""
    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.functions.specializing import SpecializingFunction

    first, *members = name.split(".")
    try:
        value = functools.reduce(getattr, members, namespace[first])
    except (KeyError, AttributeError):
        close = closest(name, _names(namespace))
        hint = f"did you mean {close}?" if close else _hint_at_functions(namespace)
        raise MagicError(f"{name!r} is not defined; {hint}") from None
    if isinstance(value, CompiledFunction | SpecializingFunction):
        return value
    what = f"of type {type(value).__name__}, not a compiled function"
    raise MagicError(f"{name!r} is {what}; {_hint_at_functions(namespace)}")


def _names(namespace: Mapping[str, object]) -> list[str]:
    """Return the names of the notebook's compiled functions."""
    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.functions.specializing import SpecializingFunction

    kinds = CompiledFunction | SpecializingFunction
    names = [name for name, value in namespace.items() if isinstance(value, kinds)]
    return [name for name in names if not name.startswith("_")]


def _hint_at_functions(namespace: Mapping[str, object]) -> str:
    """Return a hint that names the compiled functions."""
    names = _names(namespace)
    return f"the compiled functions are {', '.join(names)}" if names else "run a %%tinynn cell first"


def _ops(words: Sequence[str], _namespace: Mapping[str, object]) -> Section:
    from nnmagic.jupyter.operator_search import find_names

    symbols = find_names(list(words))
    if not symbols:
        pattern = " ".join(words).lower()
        raise MagicError(f"no name or summary has {pattern!r}; {_other_pattern(pattern)}")
    rows = [(f"{symbol.name}({', '.join(symbol.parameters or ())})", symbol.summary) for symbol in symbols]
    text_rows = [(_call_form(symbol), textwrap.fill(symbol.summary, _SUMMARY_WIDTH)) for symbol in symbols]
    return table("names", rows, ("function or operator", "what it does"), code=0, text_rows=text_rows)


def _other_pattern(pattern: str) -> str:
    """Return what to ask for where a pattern finds nothing."""
    from nnmagic.jupyter.operator_search import find_names
    from nnmagic.tinynn.editor.symbols import searchable

    if close := difflib.get_close_matches(pattern, searchable(), n=3, cutoff=0.7):
        return f"did you mean {', '.join(close)}?"
    beginnings = [pattern[:end] for end in range(len(pattern) - 1, 3, -1)]
    shorter = next((beginning for beginning in beginnings if find_names([beginning])), None)
    return f"%tinynn ops {shorter} finds some" if shorter else "%tinynn ops lists all"


#: How wide the columns of the table of operators are: together they fit an output of a notebook.
_FORM_WIDTH, _SUMMARY_WIDTH = 66, 50


def _call_form(symbol: Symbol) -> str:
    """Return a call with its default values; a long one takes several lines."""
    # A line does not break at a blank inside a default.
    form = f"{symbol.name}({', '.join(part.replace(' ', chr(0)) for part in symbol.parameters or ())})"
    lines = textwrap.wrap(
        form, _FORM_WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace(chr(0), " ")


def _cache(words: Sequence[str], _namespace: Mapping[str, object]) -> Section:
    from nnmagic.cache import disk_cache
    from nnmagic.functions.cells.compile_cell import MEMORY
    from nnmagic.functions.saving import LOADED

    disk = disk_cache()
    if words:
        if words[0] != "--clear":
            raise MagicError("usage: %tinynn cache [--clear]")
        MEMORY.clear()
        LOADED.clear()
        if disk is not None:
            disk.clear()
        return plain("cache", "the cache is empty now")
    statistics = MEMORY.statistics
    head = (
        f"cells in memory: {statistics.entries}, {statistics.nbytes / 1e6:.1f} MB of constants; "
        f"hits: {statistics.hits}, misses: {statistics.misses}, dropped: {statistics.evictions}\n"
        f"{_on_disk(disk)}"
    )
    rows = [
        (" ".join(entry.names), ", ".join(entry.captured) or "-", entry.key[:12])
        for entry in MEMORY.entries()
    ]
    return table("cache", rows, ("functions", "looked up", "key"), head) if rows else plain("cache", head)


def _on_disk(disk: Store | None) -> str:
    """Return the state of the cache on disk, and how this kernel has used it."""
    from nnmagic.functions.caching.build_or_load import COUNTS

    saved = f"seconds of compiling that both saved in this kernel: {COUNTS.seconds:.1f}"
    if disk is None:
        return f"functions on disk: none are kept\n{saved}"
    usage = disk.usage
    return (
        f"functions on disk: {usage.entries}, {usage.nbytes / 1e6:.1f} of {disk.max_bytes / 1e6:.0f} MB, in "
        f"{disk.directory}; hits: {COUNTS.hits}, misses: {COUNTS.misses}\n{saved}"
    )


def cache_text(info: CacheInfo) -> str:
    """Return what the cache did for a cell: a hit, or the reason for a miss, and how long it took."""
    where = {"memory": "in memory", "disk": "on disk"}
    what = f"found {where[info.hit]}" if info.hit else f"compiled ({info.why})"
    return f"{what}; {info.seconds * 1000:.2f} ms; key {info.key}"


def _profile(words: Sequence[str], namespace: Mapping[str, object]) -> Section:
    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.functions.from_torch import TorchFunction
    from nnmagic.functions.inspection.profile import profile
    from nnmagic.functions.specializing import SpecializingFunction

    def run(
        function: CompiledFunction | SpecializingFunction | TorchFunction,
        args: Sequence[Any],
        keywords: Mapping[str, Any],
    ) -> Section:
        function(*args, **keywords)  # an error of the call is one of what was typed
        return profile_section(profile(function, args, keywords))

    return _with_call(
        "profile", words[0], namespace, (CompiledFunction, SpecializingFunction, TorchFunction), run
    )


def _step(words: Sequence[str], namespace: Mapping[str, object]) -> Section:
    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.functions.inspection.stepping import step
    from nnmagic.functions.specializing import SpecializingFunction

    def run(function: CompiledFunction, args: Sequence[Any], keywords: Mapping[str, Any]) -> Section:
        return step(function, *args, **keywords).section()

    return _with_call("step", words[0], namespace, (CompiledFunction, SpecializingFunction), run)


def _with_call(
    command: str,
    text: str,
    namespace: Mapping[str, object],
    kinds: type | tuple[type, ...],
    run: Callable[[Any, Sequence[Any], Mapping[str, Any]], Section],
) -> Section:
    """Return what ``run`` gives for a compiled function and the arguments of a call. Raises MagicError."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise MagicError(f"{text!r} is no call: {error.msg}") from None
    if not isinstance(node, ast.Call):
        raise MagicError(f"%tinynn {command} takes a call, as in {command} foo(x, y), not {text!r}")
    called = ast.unparse(node.func)
    function = _value(node.func, dict(namespace))
    if not isinstance(function, kinds):
        raise MagicError(f"{called!r} is of type {type(function).__name__}, not a compiled function")

    def run_call(*args: object, **keywords: object) -> Section:
        return run(function, args, keywords)

    node.func = ast.copy_location(ast.Name("__given", ast.Load()), node.func)
    section: Section = _value(node, {**namespace, "__given": run_call})
    return section


def _value(node: ast.expr, namespace: dict[str, object]) -> Any:
    """Evaluate an expression in the notebook."""
    return eval(compile(ast.Expression(node), TYPED, "eval"), namespace)  # noqa: S307 - the user's own code


def profile_section(profile: Profile) -> Section:
    """Return the parts of a call as a table with bars: the time of each, and the least it could be."""
    total = profile.seconds or 1.0
    longest = max((kernel.seconds for kernel in profile.kernels), default=0.0)
    longest = max(longest, profile.rest) or 1.0
    peak = profile.peak
    in_kernels = profile.seconds - profile.rest
    note = (
        f"{profile.name}: {_si(profile.seconds, 's')} a call, {_si(in_kernels, 's')} in kernels; "
        f"the machine's peak: {_si(peak.flops, 'FLOP/s')} ({peak.dtype}), "
        f"{_si(peak.in_cache, 'B/s')} in the cache, {_si(peak.in_memory, 'B/s')} in memory"
    )
    labels = _kernel_labels([kernel.name for kernel in profile.kernels])
    bars = [
        Bar(
            (
                labels[kernel.name],
                _origin_text(profile.origins[kernel.name]),
                str(kernel.calls),
                _si(kernel.seconds, "s"),
                f"{kernel.seconds / total:.0%}",
                _si(kernel.nbytes, "B"),
                _si(kernel.flops, "FLOP") if kernel.flops else "-",
                "-" if (fraction := profile.fraction(kernel)) is None else f"{fraction:.0%}",
            ),
            kernel.seconds / longest,
            fraction or 0.0,
        )
        for kernel in sorted(profile.kernels, key=lambda kernel: -kernel.seconds)
    ]
    rest = (
        "loops, numbers, the call",
        "-",
        "-",
        _si(profile.rest, "s"),
        f"{profile.rest / total:.0%}",
        *"---",
    )
    bars.append(Bar(rest, profile.rest / longest, 0.0))
    header = ("kernel", "from", "calls", "time", "share", "bytes", "work", "of peak")
    return bar_table("profile", note, header, bars, texts=2)


#: How many operators of a kernel its label has.
_LABEL_OPERATORS = 4


def _kernel_labels(names: Sequence[str]) -> Mapping[str, str]:
    """Return the label of each kernel: its operators, and a number where others have the same."""
    from nnmagic.functions.inspection.profile import operators_of

    labels: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for name in names:
        operators = operators_of(name)
        label = " + ".join(operators[:_LABEL_OPERATORS])
        if len(operators) > _LABEL_OPERATORS:
            label += f" + {len(operators) - _LABEL_OPERATORS} more"
        counts[label] += 1
        labels[name] = label if counts[label] == 1 else f"{label} ({counts[label]})"
    return labels


#: How long the origins of a kernel are in the table, unless the first alone is longer.
_ORIGINS_WIDTH = 40


def _origin_text(names: Sequence[str]) -> str:
    """Return what a kernel computes, the first few by name: ``conv1, relu1, … (+3)``."""
    shown = list(names[:1])
    for name in names[1:]:
        if len(", ".join([*shown, name])) > _ORIGINS_WIDTH:
            break
        shown.append(name)
    rest = [f"… (+{len(names) - len(shown)})"] if len(names) > len(shown) else []
    return ", ".join([*shown, *rest]) or "-"


def _si(number: float, unit: str) -> str:
    """Format a quantity with three digits and a prefix: ``1.23 ms``."""
    for factor, prefix in (
        (1e12, "T"),
        (1e9, "G"),
        (1e6, "M"),
        (1e3, "k"),
        (1.0, ""),
        (1e-3, "m"),
        (1e-6, "µ"),
    ):
        if abs(number) >= factor:
            return f"{number / factor:.3g} {prefix}{unit}"
    return f"{number / 1e-9:.3g} n{unit}" if number else f"0 {unit}"


def _why(words: Sequence[str], namespace: Mapping[str, object]) -> Output:
    from nnmagic.functions.compiled import CompiledFunction

    function = find_compiled_function(words[0], namespace)
    compiled = [function] if isinstance(function, CompiledFunction) else list(function.specializations)
    if not compiled:
        raise MagicError(f"{words[0]} is compiled by its first call, for its types: call it, and ask then")
    return Output(tuple(each.why.section() for each in compiled))


def _rerun(_words: Sequence[str], _namespace: Mapping[str, object]) -> Section:
    from IPython import get_ipython

    magics = get_ipython().magics_manager.registry["TinyNNMagics"]
    return plain("rerun", magics.rerun())


def _help(words: Sequence[str], namespace: Mapping[str, object]) -> Section:
    if words:
        return plain("help", _command(words[0], namespace).page)
    rows = [(f"%tinynn {command.usage}", command.summary) for command in COMMANDS.values()]
    rows += [("%%tinynn [options]", "compile the tensor functions of the cell; %%tinynn? lists the options")]
    rows += [("%%relay [options]", "compile the Relay text of the cell")]
    rows += [("%config TinyNNMagics", "settings for all cells")]
    return table("help", rows, ("command", "what it does"))


#: What asks for help in place of a command, and after one.
_ASKING = ("-h", "--help")

COMMANDS = {
    "show": Command(
        "show NAME [STAGE,...]",
        f"show a function's Relay, or the stages that are named: {', '.join(SHOWN)}",
        range(1 << 10),
        _show,
        more=("  %tinynn show foo relax,graph", "  %tinynn show foo asm"),
    ),
    "ops": Command(
        "ops [PATTERN ...]",
        "list all functions and operators, or search them by name, pattern or what they do",
        range(1 << 10),
        _ops,
        more=(
            "  %tinynn ops conv        those with conv in their names come first",
            "  %tinynn ops max pool    those that fit both words",
            "  %tinynn ops *pool2d     a pattern, as for file names",
            "  %tinynn ops scan        a word of other libraries: cumsum, cumprod",
        ),
    ),
    "cache": Command(
        "cache [--clear]", "show what the caches hold, in memory and on disk, or clear them", range(2), _cache
    ),
    "profile": Command(
        "profile CALL",
        "time a call, kernel by kernel, and compare with the machine's peak",
        range(1, 2),
        _profile,
        whole=True,
        more=("  %tinynn profile foo(x, axis=1)", "  the arguments may be any Python expressions"),
    ),
    "step": Command(
        "step CALL",
        "run a call value by value: the shape, range, NaN and Inf count of each, with its line",
        range(1, 2),
        _step,
        whole=True,
        more=("  %tinynn step foo(x)", "  it says in which value the first NaN came up"),
    ),
    "why": Command(
        "why NAME",
        "say how the loops, kernels and arrays of a function run, line by line, and what costs",
        range(1, 2),
        _why,
        more=("  %tinynn why foo    what is copied, which checks stay, what is not fused or not vectorised",),
    ),
    "rerun": Command(
        "rerun",
        "compile again the functions whose captured values or functions have changed",
        range(1),
        _rerun,
        more=(
            "  scale = 3",
            "  %tinynn rerun    compiles the cells that have captured `scale`, and what uses them",
        ),
    ),
    "help": Command("help [COMMAND]", "show this list, or the page of a command", range(2), _help),
}
