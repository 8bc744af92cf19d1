"""Read the call of an operator, as rules see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnmagic.diagnostics import Span
from nnmagic.relay.expr import Attrs, Call, OpRef
from nnmagic.relay.types import Dim, TensorType, Type


class CallView:
    """What is written of a call, which is ``node``."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def node(self) -> Call:
            """The call."""

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.node.op.name if isinstance(self.node.op, OpRef) else "call"

    @property
    def attrs(self) -> Attrs:
        """The attributes, with the defaults of those that were left out."""
        return self.node.attrs

    @property
    def span(self) -> Span | None:
        """The place of the call."""
        return self.node.span


class TypedCall:
    """The shapes of the operands, whose types are ``types``, and of the result, of ``out_type``."""

    if TYPE_CHECKING:
        types: Sequence[Type]
        out_type: Type

    def tensor(self, index: int) -> TensorType:
        """Return the type of an operand that is a tensor."""
        type_ = self.types[index]
        assert isinstance(type_, TensorType)
        return type_

    def shape(self, index: int = 0) -> tuple[Dim, ...]:
        """Return the shape of an operand."""
        return self.tensor(index).shape

    def rank(self, index: int = 0) -> int:
        """Return the rank of an operand."""
        return len(self.shape(index))

    @property
    def out_shape(self) -> tuple[Dim, ...]:
        """The shape of the result."""
        assert isinstance(self.out_type, TensorType)
        return self.out_type.shape
