"""Define an operator's declaration and keep the table of all operators.

One declaration serves the printer, the parser, type inference, cells, engines, completion, the operator table
and the documentation. Engines define how an operator is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from typing import Final, Literal

from nnmagic.diagnostics import closest
from nnmagic.relay.expr import Attrs, Call, Expr, OpRef
from nnmagic.relay.ops.attributes import AttrKind
from nnmagic.relay.ops.notation import RELAY, Notation
from nnmagic.relay.types import TensorType, Type, is_integer


class _Missing:
    """The type of the sentinels NONE_GIVEN and REQUIRED."""

    def __repr__(self) -> str:
        return "<no default>"


#: "No default", where None would be a value.
NONE_GIVEN: Final = _Missing()
#: As a default in calls from Python: none, although Relay text has one.
REQUIRED: Final = _Missing()


class RelationError(Exception):
    """Argument types or attributes that an operator refuses.

    ``message`` is a template if there are ``values``, the types, shapes and dtypes that it shows: see
    `Notation.format`. ``operands`` are the indices, in the argument list, of the arguments to point at.
    ``attr`` is the attribute to point at; of several, the first that the call gives.
    """

    def __init__(
        self,
        message: str,
        *operands: int,
        hint: str | None = None,
        attr: str | tuple[str, ...] = (),
        **values: object,
    ) -> None:
        #: The message in Relay's notation.
        self.message = RELAY.format(message, values)
        super().__init__(self.message)
        self.operands = operands
        self.hint = hint
        self.attrs = (attr,) if isinstance(attr, str) else attr
        self._template = message
        self._values = values

    def message_in(self, notation: Notation) -> str:
        """Return the message with its types, shapes and dtypes in another notation."""
        return notation.format(self._template, self._values)

    def of_operator(self, name: str) -> RelationError:
        """Return the error with the operator's name in front of its message."""
        message = f"{name}: {self._template}"
        return RelationError(message, *self.operands, hint=self.hint, attr=self.attrs, **self._values)


#: (argument types, all attributes) -> result type. Raises RelationError; the operator's name is put in
#: front of its message.
Relation = Callable[[Sequence[Type], Attrs], Type]

#: A check of a call that the relation accepts: (argument types, all attributes). Raises RelationError; the
#: operator's name is put in front of its message.
Check = Callable[[Sequence[Type], Attrs], None]

#: Fills unknown (None) argument types from the known ones and the attributes, as Relay's relation assigns the
#: type of an unannotated weight. Returns the list with what it could fill.
Assume = Callable[[Sequence[Type | None], Attrs], Sequence[Type | None]]


@dataclass(frozen=True, slots=True)
class Attr:
    """An attribute of an operator.

    ``default`` is Relay's C++ default: a value equal to it is not printed; without one (NONE_GIVEN) the
    attribute is always printed. ``call_default`` is the default of Relay's Python function, which a cell's
    call uses; it need be given only where it differs.
    """

    name: str
    kind: AttrKind
    default: object = NONE_GIVEN
    call_default: object = NONE_GIVEN

    @property
    def default_in_call(self) -> object:
        """The value that a call from Python may leave out; NONE_GIVEN where it must be given."""
        if self.call_default is REQUIRED:
            return NONE_GIVEN
        return self.default if self.call_default is NONE_GIVEN else self.call_default


class Trait(Flag):
    """What passes may take for granted of an operator; one without traits may raise, print or draw numbers.

    SPECULATABLE: it may be computed where its result is not needed, since it raises nothing for operands of
    shapes that fit (MLIR's term). SPECULATABLE_FLOATS: so it is for floats, not for integers. RESHAPES:
    only the call knows whether shapes fit where sizes have names. MOVES: it moves or repeats elements, and
    kernels read through it. VIEW: NumPy may keep its result in the memory of the first operand. HEAVY: it
    costs more than reading its operands. COMMUTATIVE: its two operands may be exchanged. KEEPS_ORDER: it
    keeps the elements of its one operand, and their order. FILLS: it makes a tensor of one value. UPDATES:
    its result is a copy of its first operand with other elements. PRODUCT: it sums products along axes of
    two matrices or batches of them. CONVOLVES: it is a convolution of data with a weight. REDUCES: the
    order in which it reads the elements decides no more than how its result is rounded. CHECKS_SIZES:
    whatever has to be checked of sizes that only the run knows, an engine's code for it checks. KERNEL: an
    engine has code for it, though it has an expansion.
    """

    NONE = 0
    SPECULATABLE = auto()
    SPECULATABLE_FLOATS = auto()
    RESHAPES = auto()
    MOVES = auto()
    VIEW = auto()
    HEAVY = auto()
    COMMUTATIVE = auto()
    KEEPS_ORDER = auto()
    FILLS = auto()
    UPDATES = auto()
    PRODUCT = auto()
    CONVOLVES = auto()
    REDUCES = auto()
    CHECKS_SIZES = auto()
    KERNEL = auto()


#: The kinds of elements that operators ask for; numbers are floats and integers.
Elements = Literal["any", "floats", "numbers", "integers", "integers or bools", "bools"]


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator's declaration.

    name: the text name (``nn.dense``). args: argument names. attrs: in the order in which Relay prints them.
    relation: its type rule. summary: one sentence. numpy: its twin in NumPy, if any. attrs_key: Relay's name
    for the attribute class. call_order: positional order of arguments and attributes in a call from Python,
    where it is not arguments, then attributes. keywords: the names that Relay's Python function has for
    arguments and attributes, where they are others. arg_defaults: numbers that a call from Python may leave
    out. variadic: takes one argument that is a tuple of tensors. traits: what passes may take for granted.
    elements: of which a call has a meaning; engines and cells require it.

    The relation types Relay text exactly as the original Relay does, which accepts some calls that mean
    nothing. preconditions: what cells and engines require beyond it. shape_constraints: what the sizes of the
    operands must be to each other, checked where all of them are numbers: at compile time, or at run time for
    dynamic shapes. nonempty_constraints: the same, but only where the result has elements.
    """

    name: str
    args: tuple[str, ...]
    relation: Relation
    summary: str
    attrs: tuple[Attr, ...] = ()
    attrs_key: str | None = None
    call_order: tuple[str, ...] | None = None
    numpy: str | None = None
    family: str = ""
    assume: Assume | None = None
    variadic: bool = False
    keywords: Mapping[str, str] = field(default_factory=dict)
    arg_defaults: Mapping[str, bool | int | float] = field(default_factory=dict)
    preconditions: tuple[Check, ...] = ()
    shape_constraints: tuple[Check, ...] = ()
    nonempty_constraints: tuple[Check, ...] = ()
    traits: Trait = Trait.NONE
    elements: Elements = "any"

    def attr(self, name: str) -> Attr | None:
        """Return the attribute of that name, None if the operator has none."""
        return next((attr for attr in self.attrs if attr.name == name), None)

    def complete_attrs(self, given: Mapping[str, object], *, from_call: bool = False) -> dict[str, object]:
        """Return every attribute in declaration order: the given values, coerced, and defaults for the rest.

        ``from_call`` takes the defaults of Relay's Python function instead of the C++ ones and normalises
        values as it does (``strides=2`` is ``(2, 2)``). Raises RelationError for an unknown or missing
        attribute or a value of the wrong kind.
        """
        for name in given:
            if self.attr(name) is None:
                raise RelationError(
                    f"{self.name} has no attribute {name!r}",
                    hint=_attr_hint([a.name for a in self.attrs], name),
                    attr=name,
                )
        complete: dict[str, object] = {}
        for attr in self.attrs:
            value = given.get(attr.name, NONE_GIVEN)
            if value is NONE_GIVEN:
                value = attr.default_in_call if from_call else attr.default
                if value is NONE_GIVEN:
                    message = f"{self.name} needs the attribute {attr.name!r} ({attr.kind.words})"
                    raise RelationError(message, attr=attr.name)
            try:
                complete[attr.name] = attr.kind.in_call(value) if from_call else attr.kind.coerce(value)
            except (TypeError, ValueError) as error:
                raise RelationError(f"{self.name}: attribute {attr.name!r} {error}", attr=attr.name) from None
        return complete

    def result_type(self, arg_types: Sequence[Type], attrs: Attrs) -> Type:
        """Return the type of a call. Raises RelationError."""
        if len(arg_types) != len(self.args):
            wanted = f"{len(self.args)} argument" + ("" if len(self.args) == 1 else "s")
            raise RelationError(f"{self.name} takes {wanted} ({', '.join(self.args)}), got {len(arg_types)}")
        try:
            return self.relation(arg_types, attrs)
        except RelationError as error:
            raise error.of_operator(self.name) from None

    def check_preconditions(self, arg_types: Sequence[Type], attrs: Attrs) -> None:
        """Raise RelationError for a call that Relay gives a type although it has no meaning."""
        self._run(self.preconditions, arg_types, attrs)

    def check_shapes(self, arg_types: Sequence[Type], attrs: Attrs, *, nonempty: bool) -> None:
        """Raise RelationError where the sizes of the operands, all of them numbers, do not fit together.

        ``nonempty``: the result has elements.
        """
        self._run(self.shape_constraints, arg_types, attrs)
        if nonempty:
            self._run(self.nonempty_constraints, arg_types, attrs)

    def _run(self, checks: Sequence[Check], arg_types: Sequence[Type], attrs: Attrs) -> None:
        try:
            for check in checks:
                check(arg_types, attrs)
        except RelationError as error:  # an operator that a cell adds is none that its message can name
            raise (error if self.name == "python.sized" else error.of_operator(self.name)) from None


def _attr_hint(names: Sequence[str], wrong: str) -> str | None:
    close = closest(wrong, names)
    if close:
        return f"did you mean {close!r}?"
    return f"its attributes: {', '.join(names)}" if names else "it has no attributes"


#: All operators by name; filled by the files of this package, which ``nnmagic.relay.ops`` imports.
OPERATORS: dict[str, Operator] = {}


def operators_with(trait: Trait) -> frozenset[str]:
    """Return the names of the operators that have a trait."""
    return frozenset(name for name, operator in OPERATORS.items() if trait in operator.traits)


def traits_of(node: Expr) -> Trait:
    """Return the traits of the operator that a node calls; none for another node."""
    if isinstance(node, Call) and isinstance(node.op, OpRef) and node.op.name in OPERATORS:
        return OPERATORS[node.op.name].traits
    return Trait.NONE


def is_speculatable(node: Expr) -> bool:
    """Return whether a call of an operator computes its result and raises nothing, for shapes that fit."""
    traits = traits_of(node)
    if Trait.SPECULATABLE_FLOATS in traits:
        type_ = node.checked_type
        return isinstance(type_, TensorType) and not is_integer(type_.dtype)
    return Trait.SPECULATABLE in traits


def _attrs_key(name: str) -> str:
    """Return what Relay mostly calls an operator's attributes: ``BiasAddAttrs`` for ``nn.bias_add``."""
    words = name.rpartition(".")[2].split("_")
    return "".join(f"{word[:1].upper()}{word[1:]}" for word in words) + "Attrs"


@dataclass(frozen=True, slots=True)
class Family:
    """Operators that belong together: a chapter of the documentation.

    ``traits``: what all of them have, beside those that each declares.
    """

    name: str
    traits: Trait = Trait.NONE

    def declare(  # noqa: PLR0913 - the columns of a table
        self,
        signature: str,
        relation: Relation,
        summary: str,
        *attrs: Attr,
        attrs_key: str | None = None,
        call_order: str | None = None,
        numpy: str | None = None,
        assume: Assume | None = None,
        variadic: bool = False,
        keywords: Mapping[str, str] | None = None,
        arg_defaults: Mapping[str, bool | int | float] | None = None,
        preconditions: Sequence[Check] = (),
        shape_constraints: Sequence[Check] = (),
        nonempty_constraints: Sequence[Check] = (),
        traits: Trait = Trait.NONE,
        elements: Elements = "any",
    ) -> Operator:
        """Enter an operator into the table.

        ``signature``: its name and arguments, as in ``"nn.dense(data, weight)"``; ``call_order``: names
        separated by blanks.
        """
        name, _, args = signature.removesuffix(")").partition("(")
        if name in OPERATORS:
            raise ValueError(f"operator {name!r} is declared twice")
        operator = Operator(
            name=name,
            args=tuple(args.replace(",", "").split()),
            relation=relation,
            summary=summary,
            attrs=attrs,
            attrs_key=f"relay.attrs.{attrs_key or _attrs_key(name)}" if attrs else None,
            call_order=tuple(call_order.replace(",", "").split()) if call_order else None,
            numpy=numpy,
            family=self.name,
            assume=assume,
            variadic=variadic,
            keywords=keywords or {},
            arg_defaults=arg_defaults or {},
            preconditions=tuple(preconditions),
            shape_constraints=tuple(shape_constraints),
            nonempty_constraints=tuple(nonempty_constraints),
            traits=self.traits | traits,
            elements=elements,
        )
        OPERATORS[name] = operator
        return operator
