"""Random changes of programs and of single calls: of a shape, an element type, an attribute. By seed."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nnmagic.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    OpRef,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.structure.traverse import post_order, rewrite_module
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.types import ANY, Int64, TensorType, TupleType, Type
from tests.relay.corpus import load_programs

DTYPES = ["float32", "float32", "int32", "int64", "float16", "float64", "bool", "uint8", "int8"]
STRINGS = ["", *DTYPES[2:]]
STRINGS += [
    "NCHW",
    "NHWC",
    "NCHW4c",
    "HWCN",
    "NCW",
    "NWC",
    "NCDHW",
    "NDHWC",
    "OIHW",
    "HWIO",
    "OHWI",
    "IOHW",
    "HWOI",
    "OIW",
    "WIO",
]
STRINGS += [
    "linear",
    "cubic",
    "nearest_neighbor",
    "bilinear",
    "nearest",
    "clip",
    "wrap",
    "fast",
    "reflect",
    "SYMMETRIC",
]
STRINGS += [
    "add",
    "update",
    "sum",
    "mean",
    "none",
    "avg",
    "max",
    "constant",
    "edge",
    "both",
    "values",
    "indices",
]
STRINGS += ["half_pixel", "align_corners", "asymmetric", "zeros", "border", "constant"]
NUMBERS = [0, 1, 2, 3, 4, 5, 8, -1, -2, -3, -5, 100]


def call_of(name: str, types: list[Type], constants: dict[int, Constant], attrs: dict[str, object]) -> Module:
    """The module ``def @main(%x0, ...) { op(%x0, ...) }``; ``constants`` are arguments that are known."""
    params = {i: Var(f"x{i}", type_) for i, type_ in enumerate(types) if i not in constants}
    args = tuple(constants.get(i) or params[i] for i in range(len(types)))
    return Module({"main": Function(tuple(params.values()), Call(OpRef(name), args, attrs))})


def calls_of_the_corpus() -> list[tuple[str, list[Type], dict[int, Constant], dict[str, object]]]:
    """Every call of an operator in the programs of the corpus, alike ones once."""
    calls = {}
    for record in load_programs():
        module = infer_type(parse_module(record["text"]))
        for function in module.functions.values():
            for node in post_order(function):
                match node:
                    case Call(op=OpRef(name=name), args=args, attrs=attrs) if _has_closed_types(args):
                        types = [arg.checked_type for arg in args]
                        constants = {i: arg for i, arg in enumerate(args) if isinstance(arg, Constant)}
                        calls.setdefault(f"{name}{types}{attrs}", (name, types, constants, dict(attrs)))
    return list(calls.values())


def _has_closed_types(args: tuple[Expr, ...]) -> bool:
    return all(isinstance(arg.checked_type, TensorType | TupleType) for arg in args)


class Mutator:
    """Draws changes."""

    def __init__(self, seed: object) -> None:
        self.rng = np.random.default_rng(seed)

    def one_of(self, items):
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability):
        return bool(self.rng.random() < probability)

    def mutants(self, base, count: int) -> Iterator[Module]:
        """Calls that differ from ``base`` in one to three spots."""
        for _ in range(count):
            name, types, constants, attrs = base
            types, constants, attrs = list(types), dict(constants), dict(attrs)
            for _ in range(int(self.rng.integers(1, 4))):
                if attrs and self.chance(0.5):
                    key = self.one_of(list(attrs))
                    attrs[key] = self.attribute(name, key, attrs[key])
                elif types:
                    i = int(self.rng.integers(len(types)))
                    if i not in constants:
                        types[i] = self.type(types[i])
                    elif self.chance(0.3):
                        del constants[i]
            yield call_of(name, types, constants, attrs)

    def type(self, type_: Type) -> Type:
        """A type that differs a little."""
        if isinstance(type_, TupleType):
            if not type_.fields or self.chance(0.1):
                return self.one_of(
                    [TensorType((2, 3)), TupleType(()), TupleType((*type_.fields, TensorType((2,))))]
                )
            i = int(self.rng.integers(len(type_.fields)))
            return TupleType((*type_.fields[:i], self.type(type_.fields[i]), *type_.fields[i + 1 :]))
        shape = list(type_.shape)
        choice = self.rng.random()
        if choice < 0.15:
            return replace(type_, dtype=self.one_of(DTYPES))
        if choice < 0.2:
            return self.one_of([TupleType((type_,)), TupleType((type_, type_))])
        if choice < 0.3 or not shape:
            shape.insert(int(self.rng.integers(len(shape) + 1)), self.one_of([1, 2, 3]))
        elif choice < 0.4:
            del shape[int(self.rng.integers(len(shape)))]
        else:
            i = int(self.rng.integers(len(shape)))
            old = shape[i] if isinstance(shape[i], int) else 3
            shape[i] = self.one_of([old + 1, old - 1 if old else 1, 2 * old, 1, 1, 2, 3, 4, ANY, ANY])
        return replace(type_, shape=tuple(shape))

    def attribute(self, operator: str, key: str, value: object) -> object:
        """Another value of the attribute's kind; the same where none was found."""
        kind = OPERATORS[operator].attr(key).kind
        for _ in range(20):
            drawn = self.value(value)
            try:
                return kind.coerce(drawn)
            except (TypeError, ValueError):
                continue
        return value

    def value(self, old: object) -> object:
        """A value like the old one, or any."""
        match old:
            case _ if self.chance(0.1):
                return self.one_of([None, True, *NUMBERS, (), (1,), (0, 1), (1, 1, 1, 1), *STRINGS])
            case bool():
                return not old
            case Int64():
                return Int64(self.one_of(NUMBERS))
            case int():
                return self.one_of([old + 1, old - 1, -old, *NUMBERS])
            case float():
                return self.one_of([old + 0.5, -old, 0.0, 1.0, float("inf")])
            case str():
                return self.one_of(STRINGS)
            case tuple() if old:
                return self.tuple(old)
            case () | None:
                numbers = tuple(int(n) for n in self.rng.integers(-2, 4, size=self.rng.integers(0, 4)))
                return self.one_of([numbers, numbers, self.one_of(NUMBERS), self.one_of(STRINGS), None])
        return old

    def tuple(self, old: tuple[object, ...]) -> tuple[object, ...]:
        i = int(self.rng.integers(len(old)))
        choice = self.rng.random()
        if choice < 0.15:
            return old[:i] + old[i + 1 :]
        if choice < 0.3:
            return (*old, old[i])
        if choice < 0.4:
            return tuple(reversed(old))
        return (*old[:i], self.value(old[i]), *old[i + 1 :])

    def program(self, module: Module) -> Module:
        """A program that differs from ``module`` in one node, which need not be well-typed any more."""
        nodes = [node for function in module.functions.values() for node in post_order(function)]
        vars_ = [var for function in module.functions.values() for var in function.params]
        target = self.one_of([node for node in [*nodes, *vars_] if not isinstance(node, OpRef | GlobalVar)])
        changed: list[Expr] = []  # a variable is met where it is bound and where it is used

        def change(old: Expr, new: Expr) -> Expr:
            if old is not target:
                return new
            if not changed:
                changed.append(self.node(new))
            return changed[0]

        return rewrite_module(module, change)

    def node(self, node: Expr) -> Expr:
        """Another node of the same kind."""
        match node:
            case Var(type_annotation=type_):
                known = type_ if isinstance(type_, TensorType) else TensorType((2, 3))
                return replace(node, type_annotation=self.type(known))
            case Constant(data=data):
                shape = self.one_of([(), (1,), (2, 3), data.shape])
                return constant(np.zeros(shape), self.one_of(DTYPES))
            case Call(op=OpRef(name=name), args=args, attrs=attrs) if attrs and self.chance(0.6):
                key = self.one_of(list(attrs))
                return replace(node, attrs={**attrs, key: self.attribute(name, key, attrs[key])})
            case Call(args=args) if len(args) > 1 and self.chance(0.5):
                return replace(node, args=self.one_of([args[::-1], args[1:], (*args, args[0])]))
            case Call(op=OpRef(), args=args, attrs=attrs) if not attrs:
                other = [
                    "exp",
                    "copy",
                    "add",
                    "less",
                    "logical_not",
                    "nn.dense",
                    "nn.relu",
                    "where",
                    "shape_of",
                ]
                name = self.one_of(other)
                given = {"units": None} if name == "nn.dense" else {}
                return Call(OpRef(name), args, OPERATORS[name].complete_attrs(given, from_call=True))
            case TupleGetItem(index=index):
                return replace(node, index=self.one_of([index + 1, 0]))
            case Tuple(fields=fields):
                return replace(node, fields=self.one_of([fields[1:], fields[::-1], (*fields, *fields[:1])]))
            case If(cond=cond, true_branch=then, false_branch=other):
                return replace(
                    node, cond=self.one_of([cond, then]), true_branch=self.one_of([then, cond, other])
                )
            case Let(var=var, value=value, body=body):
                return replace(node, body=self.one_of([value, var, body]))
            case Function(params=params):
                either = [{"ret_type": TensorType((2, 3))}, {"params": params[1:]}, {"params": params * 2}]
                return replace(node, **self.one_of(either))
        return node
