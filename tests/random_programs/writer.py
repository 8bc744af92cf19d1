"""Write programs from a table of productions: text with holes, which say what they need in scope.

A hole is ``<...>``. ``<label=HOLE>`` keeps its text for ``<label>`` later in the production. A hole holds
one of these, tried in this order:

- a label
- a range of integers: ``<0..6>``
- alternatives: ``<+|-|*>``
- a kind, perhaps with the depth of its expression: ``<F 2>``
- a symbol of the grammar, with the kind that ``KIND`` stands for in its productions: ``<bounded S>``
- the name of a method ``hole_NAME`` of the writer, with arguments: ``<own F>``

A production of a statement has several lines. ``<block 1-3>`` stands for so many statements, ``<+helper>``
for all lines of another symbol; a line that begins with ``? `` is left out half of the time, with what is
indented below it. Whatever is indented has an environment of its own. After ``if`` with ``else``, and after
``match``, the names that all branches have stay. Words such as ``KIND``, ``TYPED2`` are
replaced first, by one of the kinds that the grammar has for them.
"""

from __future__ import annotations

import functools
import random
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.random_programs.environment import Environment, Signature, Unfit, Value

_HOLE = re.compile(r"<([^\s<>=][^<>]*)>")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_LABEL = re.compile(r"(\w+)=(.+)", re.DOTALL)
_CALL = re.compile(r"(\w+)(?:[: ](.*))?")
_PREFIX = re.compile(r"(?:(\d+(?:\.\d+)?)\* )?(?:\[([\w ]+)\] )?")
_BLOCK = re.compile(r"<block(?: (\d+)-(\d+))?>")
_SYMBOL = re.compile(r"<\+(\w+)>")
#: How often a choice that does not fit is made again.
_TRIES = 20


@dataclass(frozen=True)
class Production:
    """One way to write a symbol. ``needs``: names of conditions of the writer."""

    text: str
    weight: float = 1
    needs: tuple[str, ...] = ()

    @functools.cached_property
    def lines(self) -> list[tuple[str, list]]:
        """The text's lines, each with those that are indented below it."""
        return _tree(self.text.split("\n"))


def _tree(lines: list[str]) -> list[tuple[str, list]]:
    made: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("    "):
            made[-1][1].append(line[4:])
        else:
            made.append((line, []))
    return [(line, _tree(below)) for line, below in made]


def read_productions(table: str) -> tuple[Production, ...]:
    """Read a table: a production a line, or a paragraph where there are indented lines or paragraphs.

    ``3* [loop] break`` has the weight 3 and needs a loop around it.
    """
    table = textwrap.dedent(table).strip("\n")
    is_of_lines = any(mark in table for mark in ("\n\n", "\n    ", "\n<+", "\n? "))
    separator = "\n\n" if is_of_lines else "\n"
    made = []
    for each in table.split(separator):
        prefix = _PREFIX.match(each)
        assert prefix is not None
        needs = tuple((prefix[2] or "").split())
        made.append(Production(each[prefix.end() :], float(prefix[1] or 1), needs))
    return tuple(made)


def words(text: str) -> str:
    """Return the table of a symbol that is one of some words."""
    return "\n".join(text.split())


@dataclass(frozen=True)
class Grammar:
    """The productions of a family.

    Args:
        tables: the productions of each symbol, as ``read_productions`` reads them. Symbols of one letter
            are kinds: expressions, which are put in brackets.
        kinds: which kinds a word such as ``KIND`` stands for; those that stand there twice are taken twice
            as often.
        types: the annotation of each kind.
        fits: the kinds whose names are expressions of a kind, too.
        reuse: the chance that an expression is a name, by its depth; deeper ones are, where there is one.
        depth: from which depth on an expression is a name, or one of ``leaf KIND``.
        nesting: from which depth of blocks on there are no more of them.
        expressions: productions that every kind has, by kinds.

    """

    tables: Mapping[str, str]
    kinds: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    fits: Mapping[str, str] = field(default_factory=dict)
    reuse: tuple[float, ...] = (0.35, 0.35)
    depth: int = 3
    nesting: int = 4
    expressions: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def symbols(self) -> dict[str, tuple[Production, ...]]:
        made = {name: read_productions(table) for name, table in self.tables.items()}
        for table, kinds in self.expressions.items():
            for kind in kinds:
                made[kind] = (*made.get(kind, ()), *read_productions(table))
        return made

    @functools.cached_property
    def all_kinds(self) -> frozenset[str]:
        return frozenset("".join([*self.kinds.values(), *self.types]))

    @functools.cached_property
    def words(self) -> re.Pattern[str]:
        return re.compile(rf"\b({'|'.join(self.kinds) or 'KIND'})\d?\b")


class Writer:
    """Writes one program by a grammar."""

    def __init__(self, grammar: Grammar, seed: random.Random, size: int = 12) -> None:
        self.grammar, self.random, self.size = grammar, seed, size
        self.env = Environment()
        self.count = 0
        self.params: list[Value] = []
        self.macros: dict[str, str] = {}
        self.part = "main"
        self.depth = 0
        self.labels: dict[str, str] = {}
        self.pending: list[tuple[str, str, str]] = []  # name, kind, "fixed" or "outside"
        self.opened: list[str] = []
        self.defined: tuple[str, str] | None = None
        self.called: Signature | None = None

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def new(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def bind(self, kind: str, *names: str) -> None:
        """Make names known that the text has as they are."""
        self.env.values.update({name: Value(name, kind) for name in names})

    def program(self, **macros: str) -> str:
        """Write the symbol ``program``: whole lines. Raises Unfit."""
        self.macros = macros
        return "\n".join(self.write("program", 0)[0]) + "\n"

    # -- expressions -------------------------------------------------------------------------------------

    def fill(self, text: str) -> str:
        """Fill the holes of a text."""
        return _HOLE.sub(lambda hole: self.hole(hole[1]), text)

    def hole(self, content: str) -> str:
        if content in self.labels:
            return self.labels[content]
        if content in self.macros:
            return self.macros[content]
        if ends := _RANGE.fullmatch(content):
            return str(self.random.randint(int(ends[1]), int(ends[2])))
        if label := _LABEL.fullmatch(content):
            self.labels[label[1]] = text = self.hole(label[2])
            return text
        if "|" in content and not content.startswith("let "):
            chosen = self.random.choice(content.split("|"))
            word = chosen.split(" ")[0]
            is_hole = word in self.grammar.symbols or hasattr(self, f"hole_{word}") or _RANGE.fullmatch(word)
            return self.hole(chosen) if is_hole else chosen
        call = _CALL.fullmatch(content)
        assert call is not None, content
        name, argument = call[1], call[2] or ""
        if name not in self.grammar.symbols and name not in self.grammar.all_kinds:
            return str(getattr(self, f"hole_{name}")(argument))
        if name in self.grammar.all_kinds:
            return self.expression(name, max(self.depth, int(argument or 0)))
        leaf = f"leaf {name}"
        if leaf not in self.grammar.symbols:
            return self.expand(name, argument)
        return self.expand(leaf if self.depth >= self.grammar.depth else name, argument, self.depth + 1)

    def expression(self, kind: str, depth: int) -> str:
        """Write an expression of a kind: a name, or what its productions say."""
        grammar = self.grammar
        names = self.env.names(grammar.fits.get(kind, kind))
        if names and (depth >= len(grammar.reuse) or self.chance(grammar.reuse[depth])):
            return self.random.choice(names)
        if depth > grammar.depth + 3:
            raise Unfit
        leaf = f"leaf {kind}" if f"leaf {kind}" in grammar.symbols else "leaf"
        is_leaf = depth >= grammar.depth and leaf in grammar.symbols
        if not names and not is_leaf and leaf in grammar.symbols:
            self.expand(leaf, kind, depth + 1)  # raises Unfit where nothing of the kind can be made
        text = self.expand(leaf if is_leaf else kind, kind, depth + 1)
        return text if text.isidentifier() or text.isdigit() else f"({text})"

    def expand(self, symbol: str, kind: str = "", depth: int | None = None) -> str:
        """Write a symbol by one of its productions."""
        for production in self.choices(symbol):
            env, labels, before = self.env, self.labels, self.depth
            saved = dict(env.values), dict(env.functions), len(self.pending), self.count
            around = env.inside, env.params
            self.labels, opened, self.opened = {}, self.opened, []
            self.depth = self.depth if depth is None else depth
            try:
                return self.fill(self.replacer(kind)(production.text))
            except Unfit:
                env.values, env.functions = saved[0], saved[1]
                del self.pending[saved[2] :]
                self.count = saved[3]
            finally:
                for name in self.opened:  # the parameters of a lambda
                    env.values.pop(name, None)
                env.inside, env.params = around
                self.labels, self.depth, self.opened = labels, before, opened
        raise Unfit

    def choices(self, symbol: str) -> Iterator[Production]:
        """Draw productions of a symbol, one after the other."""
        if symbol not in self.grammar.symbols:
            raise KeyError(symbol)
        options = [
            each
            for each in self.grammar.symbols[symbol]
            if all(getattr(self, f"is_{need}") for need in each.needs)
        ]
        weights = [each.weight for each in options]
        for _ in range(_TRIES if options else 0):
            yield self.random.choices(options, weights)[0]

    def replacer(self, kind: str = "") -> Callable[[str], str]:
        """Return a function that replaces each word that stands for kinds by one kind, always the same."""
        drawn = {"KIND": kind} if kind else {}

        def draw(word: re.Match[str]) -> str:
            if word[0] not in drawn:
                drawn[word[0]] = self.random.choice(self.grammar.kinds[word[1]])
            return drawn[word[0]]

        return lambda text: self.grammar.words.sub(draw, text)

    # -- conditions of productions -----------------------------------------------------------------------

    @property
    def is_loop(self) -> bool:
        return self.env.loop

    @property
    def is_main(self) -> bool:
        return self.part == "main"

    @property
    def is_nested(self) -> bool:
        return self.env.depth > 1

    @property
    def is_top(self) -> bool:
        return self.env.depth <= 1

    @property
    def is_shallow(self) -> bool:
        return self.env.depth <= self.grammar.nesting and self.size > 1

    @property
    def is_outside(self) -> bool:
        return self.env.inside <= 1

    @property
    def is_inside(self) -> bool:
        return self.env.inside > 1

    @property
    def is_flat(self) -> bool:
        return self.env.inside <= 2

    # -- holes -------------------------------------------------------------------------------------------

    def hole_new(self, kind: str) -> str:
        """A new name, which is bound after the line."""
        self.pending.append((name := self.new(), kind, ""))
        return name

    def hole_named(self, argument: str) -> str:
        """``<named KIND x y z>``: one of these names, which is bound after the line."""
        kind, *names = argument.split()
        self.pending.append((name := self.random.choice(names), kind, ""))
        return name

    def hole_bound(self, argument: str) -> str:
        """``<bound LABEL KIND>``: the name of a label, bound here, too."""
        label, kind = argument.split()
        self.pending.append((name := self.labels[label], kind, ""))
        return name

    def hole_kept(self, kinds: str) -> str:
        """A name that the block below may not change, since the header goes over it."""
        name = self.hole_name(kinds)
        self.pending.append((name, self.env.values[name].kind, "fixed"))
        return name

    def hole_counter(self, kind: str) -> str:
        """A new name that the block below may not assign."""
        self.pending.append((name := self.new("c"), kind, "fixed"))
        return name

    def hole_target(self, kind: str) -> str:
        """A new name of a loop that has rounds: it is still there after the loop."""
        self.pending.append((name := self.new("c"), kind, "outside"))
        return name

    def hole_fresh(self, _argument: str) -> str:
        """A new name that nothing reads."""
        return self.new("w")

    def hole_param(self, kind: str) -> str:
        """A new name that the rest of the line, and the block below, see."""
        name = self.new("a")
        self.env.values[name] = Value(name, kind)
        self.env.params += kind
        self.opened.append(name)
        self.env.inside += 1
        return name

    def hole_annotated(self, kind: str) -> str:
        """A parameter as ``<param KIND>``, with its type."""
        return f"{self.hole_param(kind)}: {self.grammar.types[kind]}"

    def hole_name(self, kinds: str) -> str:
        return self._one_of(self.env.names(kinds))

    def hole_names(self, kinds: str) -> str:
        """All names of some kinds."""
        return ", ".join(self.env.names(kinds))

    def hole_own(self, kinds: str) -> str:
        """A name that may be assigned, another one for each label."""
        return self._one_of(self.env.names(kinds, own=True))

    def _one_of(self, names: list[str]) -> str:
        fit = [name for name in names if name not in self.labels.values()]
        if not fit:
            raise Unfit
        return self.random.choice(fit)

    def hole_let(self, argument: str) -> str:
        """``<let NAME=HOLE>``: ``<NAME>`` from now on, everywhere."""
        name, _, content = argument.partition("=")
        self.macros[name] = self.hole(content)
        return ""

    def hole_type(self, kind: str) -> str:
        return self.grammar.types[kind]

    def hole_params(self, argument: str) -> str:
        """``<params all 2-4>``: parameters of the kinds of ``ALL``, with their types."""
        return ", ".join(map(self.hole_typed, self._draw_kinds(argument)))

    def _draw_kinds(self, argument: str) -> list[str]:
        word, count = argument.split()
        low, high = map(int, count.split("-"))
        return self.random.choices(self.grammar.kinds[word.upper()], k=self.random.randint(low, high))

    def hole_typed(self, kind: str) -> str:
        """A parameter with its type."""
        value = Value(self.new("p"), kind)
        self.env.values[value.name] = value
        self.env.params += kind
        self.opened.append(value.name)
        self.params.append(value)
        return f"{value.name}: {self.grammar.types[kind]}"

    def hole_fix(self, label: str) -> str:
        """From here on no statement assigns the name of a label."""
        self.env.fixed |= {self.labels[label]}
        return ""

    def hole_room(self, argument: str) -> str:
        """``<room 5-16>``: so many statements may follow; ``<room 5-16 main>``: in the last function."""
        self.params = []
        count, _, self.part = argument.partition(" ")
        self.size = self.random.randint(*map(int, count.split("-")))
        return ""

    def hole_returns(self, argument: str) -> str:
        """``<returns all 1-3>``: what the function around returns."""
        self.env.results = "".join(self._draw_kinds(argument))
        return ""

    def hole_arrow(self, _argument: str) -> str:
        types = [self.grammar.types[kind] for kind in self.env.results]
        return f" -> {types[0]}" if len(types) == 1 else f" -> tuple[{', '.join(types)}]"

    def hole_results(self, _argument: str) -> str:
        return ", ".join(self.expression(kind, 1) for kind in self.env.results)

    def hole_function(self, results: str) -> str:
        """The name of a function that the line defines; its parameters are those of the line."""
        return self._define(self.new("g"), results)

    def hole_recursive(self, results: str) -> str:
        """The name of a function that the line defines, which ``<itself>`` calls."""
        self.macros["itself"] = name = self.hole_function(results)
        return name

    def hole_countdown(self, kind: str) -> str:
        """The first parameter of such a function, with its type: ``<first>`` from now on."""
        text = self.hole_typed(kind)
        self.macros["first"] = name = self.params[-1].name
        self.env.fixed |= {name}
        return text

    def hole_again(self, argument: str) -> str:
        """``<again LABEL RESULTS>``: the function of a label, defined once more."""
        label, results = argument.split()
        return self._define(self.labels[label], results)

    def hole_redefined(self, results: str) -> str:
        """A function of one parameter of the results' kind, defined anew."""
        name = self.hole_function_of(results)
        del self.env.functions[name]
        return self._define(name, results)

    def _define(self, name: str, results: str) -> str:
        self.defined = name, results
        self.env.results = results or self.env.results
        return name

    def hole_alone(self, _argument: str) -> str:
        """From here on the function sees nothing around it."""
        self.env.values, self.env.functions = {}, {}
        return ""

    def hole_callable(self, kind: str) -> str:
        """A parameter that is a function of one argument."""
        name = self.new("k")
        self.env.functions[name] = Signature(kind, kind)
        self.env.params += "k"
        return name

    def hole_call(self, kind: str) -> str:
        """A call of a function with this result."""
        fit = [name for name, each in self.env.functions.items() if each.results == kind]
        name = self._one_of(fit)
        given = [self.expression(each, self.depth + 1) for each in self.env.functions[name].params]
        return f"{name}({', '.join(given)})"

    def hole_function_of(self, argument: str) -> str:
        """``<function_of PARAMS RESULTS>``: the name of such a function; ``<function_of F>``: from F to F."""
        params, _, results = argument.partition(" ")
        wanted = Signature(params, results or params)
        return self._one_of([name for name, each in self.env.functions.items() if each == wanted])

    def hole_targets(self, argument: str) -> str:
        """Names for the results of a function: ``<targets self>`` of the one around, or of any."""
        if argument == "self":
            self.called = Signature(self.env.params, self.env.results)
        else:
            self.macros["callee"] = name = self._one_of(list(self.env.functions))
            self.called = self.env.functions[name]
        targets: list[str] = []
        for kind in self.called.results:
            own = [each for each in self.env.names(kind, own=True) if each not in targets]
            targets.append(self.random.choice(own) if own and self.chance(0.5) else self.hole_new(kind))
        return ", ".join(targets)

    def hole_given(self, argument: str) -> str:
        """The arguments of ``targets``; ``<given self>``: of the function around, after the first."""
        params = self.env.params[1:] if argument == "self" else self.called.params if self.called else ""
        return ", ".join(self.expression(kind, 2) for kind in params)

    # -- statements --------------------------------------------------------------------------------------

    def write(self, symbol: str, indent: int) -> tuple[list[str], bool]:
        """Write a symbol of whole lines; return them, and whether what follows can be reached."""
        for production in self.choices(symbol):
            env, size, labels = self.env, self.size, self.labels
            saved = dict(env.values), dict(env.functions), self.count, len(self.params), env.fixed
            self.labels = {}
            try:
                return self.write_lines(production.lines, indent, self.replacer())
            except Unfit:
                self.env, self.size, self.count = env, size, saved[2]
                env.values, env.functions, env.fixed = saved[0], saved[1], saved[4]
                del self.params[saved[3] :]
                self.pending = []
            finally:
                self.labels = labels
        raise Unfit

    def write_lines(
        self, lines: list[tuple[str, list]], indent: int, words: Callable[[str], str]
    ) -> tuple[list[str], bool]:
        written: list[str] = []
        chain: list[tuple[str, list[Environment]]] = []  # of branches: the word, and where they end
        for text, below in self.without_optional(lines):
            word = text.split()[0].rstrip(":")
            if chain and word not in ("elif", "else"):
                if not self.end_chain(chain):
                    return written, False
                chain = []
            reachable = True
            if block := _BLOCK.fullmatch(text):
                more, reachable = self.block(int(block[1] or 1), int(block[2] or 1), indent)
            elif symbol := _SYMBOL.fullmatch(text):
                more, reachable = self.write(symbol[1], indent)
            elif not below:
                more = [f"{'    ' * indent}{each}" for each in self.line(words(text))]
                reachable = not more or more[0].split()[0] not in ("return", "break", "continue")
            else:
                more, ends = self.compound(text, below, indent, words)
                if word in ("if", "match") or chain:
                    chain.append((word, ends))
            written += more
            if not reachable:
                return written, False
        return written, self.end_chain(chain) if chain else True

    def without_optional(self, lines: list[tuple[str, list]]) -> Iterator[tuple[str, list]]:
        """Yield the lines without some of those that begin with ``? ``."""
        for line, below in lines:
            text = line.removeprefix("? ")
            if text == line or self.chance(0.5):
                yield text, below

    def end_chain(self, chain: list[tuple[str, list[Environment]]]) -> bool:
        """Take the names that all branches have; return whether one of them ends."""
        ends = [end for _, found in chain for end in found]
        if chain[-1][0] not in ("else", "match"):
            ends.append(self.env.inner())
        if ends:
            self.env.join(ends)
        return bool(ends)

    def line(self, text: str) -> list[str]:
        """Fill one line, and bind its names."""
        env, self.opened, self.defined = self.env, [], None
        inside, around, results = env.inside, env.params, env.results
        filled = self.fill(text)
        if self.defined:
            env.functions[self.defined[0]] = Signature(env.params[len(around) :], self.defined[1])
        env.inside, env.params = inside, around
        env.results = results if self.defined else env.results
        for name in self.opened:
            env.values.pop(name)
        self.bind_pending(env, self.pending)
        self.pending, self.opened = [], []
        return [filled] if filled else []

    @staticmethod
    def bind_pending(env: Environment, pending: list[tuple[str, str, str]]) -> None:
        for name, kind, flag in pending:
            env.values[name] = Value(name, kind)
            env.fixed |= {name} if flag == "fixed" else set()

    def compound(
        self, text: str, below: list, indent: int, words: Callable[[str], str]
    ) -> tuple[list[str], list[Environment]]:
        """Write a header and what is indented below it; return with which names it ends."""
        outer, word = self.env, text.split(maxsplit=1)[0].rstrip(":")
        inner = outer.of_function() if word == "def" else outer.inner()
        self.env = inner if word in ("def", "case") else outer
        self.opened, self.defined = [], None
        inside, around = self.env.inside, self.env.params
        header = "    " * indent + self.fill(words(text))
        self.env.inside = inside
        defined, pending = self.defined, self.pending
        self.pending, self.opened, self.defined = [], [], None
        if word != "def":
            self.env.params = around
        if word in ("if", "elif", "while"):  # what the condition assigns
            self.bind_pending(outer, pending)
            pending = []
            inner = outer.inner()
        self.bind_pending(inner, pending)
        if word in ("for", "while"):
            inner.loop = True
        self.env = inner
        if word == "match":
            written, ends = list[str](), list[Environment]()
            for case, lines in self.without_optional(below):
                more, end = self.compound(case, lines, indent + 1, words)
                written += more
                ends += end
            self.env = outer
            return [header, *written], ends
        lines, reachable = self.write_lines(below, indent + 1, words)
        self.env = outer
        self.bind_pending(outer, [each for each in pending if each[2] == "outside"])
        if word == "def" and defined:
            outer.functions[defined[0]] = Signature(inner.params, inner.results)
        return [header, *(lines or ["    " * (indent + 1) + "pass"])], [inner] * reachable

    def block(self, low: int, high: int, indent: int) -> tuple[list[str], bool]:
        """Write so many statements, while there is room; return them, and whether their end is reached."""
        written: list[str] = []
        for _ in range(self.random.randint(low, high)):
            if self.size <= 0:
                break
            self.size -= 1
            try:
                lines, reachable = self.write("statement", indent)
            except Unfit:
                continue
            written += lines
            if not reachable:
                return written, False
        return written, True
