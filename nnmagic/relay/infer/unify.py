"""Unify types with holes.

Unification is Robinson's (1965): holes are bound, and a hole never occurs in what it is bound to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from nnmagic.relay import types as ty
from nnmagic.relay.text.types import dim_text, type_text

#: How deep types may nest: far above what programs need, far below the limit of recursion over a type.
MAX_NESTING: Final = 100

#: The number of parts that a type may have; nesting tuples of one type twice doubles it each time.
MAX_PARTS: Final = 200_000

#: A type that is not inferred yet.
Hole = ty.IncompleteType

#: The type of an expression with a reported error: it agrees with every type, which avoids follow-up errors.
UNKNOWN: Final[ty.Type] = ty.TypeVar("_")


class MismatchError(Exception):
    """Two types that cannot be unified; ``detail`` says how they differ, "" if that is plain.

    ``only_sizes``: they are tensors that differ in sizes only.
    """

    def __init__(self, detail: str = "", *, only_sizes: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.only_sizes = only_sizes


class NestingError(Exception):
    """A type nested deeper than MAX_NESTING, or made of more than MAX_PARTS parts."""


def type_parts(type_: ty.Type) -> tuple[ty.Type, ...]:
    """Return the types that a type is made of."""
    match type_:
        case ty.TupleType(fields=fields):
            return fields
        case ty.FuncType(arg_types=args, ret_type=ret):
            return (*args, ret)
        case ty.RefType(value=value):
            return (value,)
        case ty.TypeCall(args=args):
            return args
        case _:
            return ()


def with_parts(type_: ty.Type, members: Sequence[ty.Type]) -> ty.Type:
    """Return a type made of new parts; itself if they are the old ones."""
    if all(new is old for new, old in zip(members, type_parts(type_), strict=True)):
        return type_
    match type_:
        case ty.TupleType():
            return replace(type_, fields=tuple(members))
        case ty.FuncType():
            return replace(type_, arg_types=tuple(members[:-1]), ret_type=members[-1])
        case ty.RefType():
            return ty.RefType(members[0])
        case ty.TypeCall():
            return replace(type_, args=tuple(members))
        case _:
            return type_


def map_leaves(type_: ty.Type, leaf: Callable[[ty.Type], ty.Type]) -> ty.Type:
    """Replace each tensor type and type variable in a type."""
    match type_:
        case ty.TensorType() | ty.TypeVar():
            return leaf(type_)
        case _:
            return with_parts(type_, [map_leaves(part, leaf) for part in type_parts(type_)])


def substitute(type_: ty.Type, types: Mapping[ty.TypeVar, ty.Type]) -> ty.Type:
    """Replace type variables in a type."""
    if not types:
        return type_
    return map_leaves(type_, lambda leaf: types.get(leaf, leaf) if isinstance(leaf, ty.TypeVar) else leaf)


def check_size(type_: ty.Type) -> None:
    """Raise NestingError for a type that is too deep or too large to work on; does not recurse."""
    depth, nodes_count, level = 0, 1, [type_]
    while level := [part for outer in level for part in type_parts(outer)]:
        depth, nodes_count = depth + 1, nodes_count + len(level)
        if depth > MAX_NESTING or nodes_count > MAX_PARTS:
            raise NestingError


def mentions(type_: ty.Type, wanted: ty.Type) -> bool:
    """Return whether ``wanted`` itself (by identity) occurs in a type."""
    return type_ is wanted or any(mentions(part, wanted) for part in type_parts(type_))


def unify_dim(lhs: ty.Dim, rhs: ty.Dim) -> ty.Dim | None:
    """Unify two dimensions by Relay's rule, None if they differ.

    ``?`` absorbs anything, all else must be equal. A label that both have is kept.
    """
    if lhs == rhs:
        return lhs
    if isinstance(lhs, ty.AnyDim) or isinstance(rhs, ty.AnyDim):
        return ty.ANY
    return None


class Solver:
    """The contents of holes, and the callbacks that wait for them.

    ``ready`` holds the callbacks whose hole was filled; the owner runs them.
    """

    def __init__(self, *, loose: bool = False) -> None:
        #: Whether two sizes that differ unify to `?`.
        self.loose = loose
        self._filled: dict[Hole, ty.Type] = {}
        self._waiting: dict[Hole, list[Callable[[], None]]] = {}
        # Types without holes, by id (which the kept type guards), with nesting and size: not visited again.
        self._whole: dict[int, tuple[ty.Type, int, int]] = {}
        self.ready: deque[Callable[[], None]] = deque()
        #: Whether a dynamic dimension was unified with a number.
        self.widened = False

    def wait(self, hole: Hole, retry: Callable[[], None]) -> None:
        """Make ``retry`` ready once the hole is filled."""
        self._waiting.setdefault(hole, []).append(retry)

    def find(self, type_: ty.Type) -> ty.Type:
        """Return what a hole was filled with; any other type unchanged."""
        while isinstance(type_, Hole) and type_ in self._filled:
            type_ = self._filled[type_]
        return type_

    def resolve(self, type_: ty.Type) -> ty.Type:
        """Return the type with all filled holes replaced. Raises NestingError."""
        return type_ if type(type_) is ty.TensorType else self._resolve(type_)[0]

    def _resolve(self, type_: ty.Type) -> tuple[ty.Type, int, int]:
        """Return the resolved type, its nesting and its size; enter types without holes into ``_whole``."""
        type_ = self.find(type_)
        entry = self._whole.get(id(type_))
        if entry is not None:
            return entry
        fields = type_parts(type_)
        if not fields:
            return type_, 0, 1
        resolved = [self._resolve(field) for field in fields]
        depth = 1 + max(depth for _, depth, _ in resolved)
        size = 1 + sum(size for _, _, size in resolved)
        if depth > MAX_NESTING or size > MAX_PARTS:
            raise NestingError
        rebuilt = with_parts(type_, [field for field, _, _ in resolved])
        if all(self._is_whole(field) for field, _, _ in resolved):
            # The id is only unique as long as the type lives: the entry keeps it alive.
            self._whole[id(rebuilt)] = (rebuilt, depth, size)
        return rebuilt, depth, size

    def _is_whole(self, type_: ty.Type) -> bool:
        """Return whether a resolved type has no holes."""
        if type_parts(type_):
            return id(type_) in self._whole
        return not isinstance(type_, Hole)

    def hole_in(self, type_: ty.Type) -> Hole | None:
        """Return the first unfilled hole of a resolved type."""
        if isinstance(type_, Hole):
            return type_
        if self._is_whole(type_):
            return None
        return next((hole for hole in map(self.hole_in, type_parts(type_)) if hole is not None), None)

    def unify(self, lhs: ty.Type, rhs: ty.Type) -> ty.Type:
        """Fill holes so that both types are equal, and return that type. Raises MismatchError."""
        lhs, rhs = self.find(lhs), self.find(rhs)
        if lhs is rhs or rhs is UNKNOWN:
            # After a reported error the hole agrees with everything, so that one mistake gives one
            # message.
            if isinstance(lhs, Hole) and rhs is UNKNOWN:
                self.fill(lhs, rhs)
            return lhs
        if lhs is UNKNOWN:
            return self.unify(rhs, lhs)
        if isinstance(lhs, Hole):
            return self.fill(lhs, rhs)
        if isinstance(rhs, Hole):
            return self.fill(rhs, lhs)
        match lhs, rhs:
            case ty.TensorType(), ty.TensorType():
                self.widened = self.widened or lhs != rhs
                return _unify_tensors(lhs, rhs, self.loose)
            case ty.TupleType(), ty.TupleType() if len(lhs.fields) != len(rhs.fields):
                raise MismatchError(f"a tuple of {len(lhs.fields)} is not a tuple of {len(rhs.fields)}")
            case ty.FuncType(), ty.FuncType():
                return self._unify_functions(lhs, rhs)
            case (ty.TupleType(), ty.TupleType()) | (ty.RefType(), ty.RefType()):
                return self._unify_parts(lhs, rhs)
            case ty.TypeCall(), ty.TypeCall() if lhs.func == rhs.func and len(lhs.args) == len(rhs.args):
                return self._unify_parts(lhs, rhs)
            case ty.GlobalTypeVar(), ty.GlobalTypeVar() if lhs == rhs:
                return lhs
            case _:
                raise MismatchError

    def fill(self, hole: Hole, type_: ty.Type) -> ty.Type:
        """Fill a hole. Raises MismatchError if the type contains the hole itself."""
        type_ = self.resolve(type_)
        # The occurs check: without it, f(f) would have the type t -> t -> t -> ... without an end.
        if not self._is_whole(type_) and mentions(type_, hole):
            raise MismatchError("a type would contain itself")
        self._filled[hole] = type_
        # Callbacks run later, by the owner: run from here, they would unify in the middle of
        # another unification.
        self.ready.extend(self._waiting.pop(hole, ()))
        return type_

    def _unify_parts(self, lhs: ty.Type, rhs: ty.Type) -> ty.Type:
        pairs = zip(type_parts(lhs), type_parts(rhs), strict=True)
        return with_parts(lhs, [self.unify(a, b) for a, b in pairs])

    def _unify_functions(self, lhs: ty.FuncType, rhs: ty.FuncType) -> ty.Type:
        """Unify function types; a generic one is instantiated to agree with a plain one."""
        if len(lhs.arg_types) != len(rhs.arg_types):
            counts = f"{len(lhs.arg_types)} and {len(rhs.arg_types)}"
            raise MismatchError(f"the functions take {counts} arguments")
        if len(lhs.type_params) == len(rhs.type_params):
            renamed = substitute(
                replace(rhs, type_params=()), dict(zip(rhs.type_params, lhs.type_params, strict=True))
            )
            return self._unify_parts(lhs, renamed)
        if lhs.type_params and rhs.type_params:
            counts = f"{len(lhs.type_params)} and {len(rhs.type_params)}"
            raise MismatchError(f"the functions have {counts} type parameters")
        # A generic function is used where a plain one is wanted: its type parameters become holes.
        return self._unify_parts(self.instantiate(lhs), self.instantiate(rhs))

    def instantiate(self, function: ty.FuncType, type_args: Sequence[ty.Type] = ()) -> ty.FuncType:
        """Return a generic function's type for the given type arguments, holes for the rest."""
        if not function.type_params:
            return function
        missing = len(function.type_params) - len(type_args)
        types = [*type_args, *(Hole() for _ in range(missing))]
        plain = substitute(
            replace(function, type_params=()), dict(zip(function.type_params, types, strict=True))
        )
        assert isinstance(plain, ty.FuncType)
        return plain


def _unify_tensors(lhs: ty.TensorType, rhs: ty.TensorType, loose: bool) -> ty.TensorType:
    if lhs == rhs:
        return lhs
    if lhs.dtype != rhs.dtype:
        raise MismatchError(f"the dtype {lhs.dtype} is not {rhs.dtype}")
    if len(lhs.shape) != len(rhs.shape):
        raise MismatchError(f"rank {len(lhs.shape)} is not rank {len(rhs.shape)}")
    shape: list[ty.Dim] = []
    wrong = []
    for axis, (a, b) in enumerate(zip(lhs.shape, rhs.shape, strict=True)):
        dim = ty.ANY if loose and a != b else unify_dim(a, b)
        if dim is None:
            wrong.append(f"dimension {axis}: {dim_text(a)} is not {dim_text(b)}")
        else:
            shape.append(dim)
    if wrong:
        raise MismatchError(", ".join(wrong), only_sizes=True)
    return ty.TensorType(tuple(shape), lhs.dtype)


def describe_type(type_: ty.Type) -> str:
    """Return a type's text for a message, cut if it is long."""
    text = type_text(type_)
    return text if len(text) <= 400 else text[:400] + "..."
