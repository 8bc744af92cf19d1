"""Write rules of matrices once for real ones and for complex ones, which are pairs of floats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nnmagic.relay.gradients.registry import rule
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall
from nnmagic.relay.tensor_expr import TensorExpr


@dataclass(frozen=True, slots=True)
class Matrices:
    """Arithmetic on the matrices of a call: real ones, or pairs of floats along one more axis."""

    p: VjpCall
    #: The rank of the matrices, with the axes of batches and without that of pairs.
    rank: int
    pairs: bool

    def product(
        self, lhs: TensorExpr, rhs: TensorExpr, *, first: bool = False, second: bool = False
    ) -> TensorExpr:
        """Multiply matrices, or batches of them; ``first`` and ``second`` transpose, and conjugate."""
        if not self.pairs:
            return self._real_product(lhs, rhs, first=first, second=second)
        (a, b), (c, d) = self.parts(lhs), self.parts(rhs)
        b, d = -b if first else b, -d if second else d

        def times(one: TensorExpr, other: TensorExpr) -> TensorExpr:
            return self._real_product(one, other, first=first, second=second)

        return self.join(times(a, c) - times(b, d), times(a, d) + times(b, c))

    def _real_product(self, lhs: TensorExpr, rhs: TensorExpr, *, first: bool, second: bool) -> TensorExpr:
        if self.rank == 2:
            return lhs.op("nn.matmul", rhs, transpose_a=first, transpose_b=second)
        if self.rank == 3:
            return lhs.op("nn.batch_matmul", rhs, transpose_a=first, transpose_b=second)
        letters = "ABCDEFGH"[: self.rank - 2]
        one, two = "ji" if first else "ij", "kj" if second else "jk"
        return lhs.pair(rhs).op("einsum", equation=f"{letters}{one},{letters}{two}->{letters}ik")

    def parts(self, term: TensorExpr) -> tuple[TensorExpr, TensorExpr]:
        """Return real and imaginary parts."""
        re, im = (term.op("take", self.p.array(at, "int64"), axis=-1, mode="fast") for at in range(2))
        return re, im

    def join(self, re: TensorExpr, im: TensorExpr) -> TensorExpr:
        """Return pairs of real and imaginary parts."""
        return re.pair(im).op("stack", axis=-1)

    def adjoint(self, term: TensorExpr) -> TensorExpr:
        """Transpose, and conjugate."""
        order = [*range(self.rank - 2), self.rank - 1, self.rank - 2]
        if not self.pairs:
            return term.transpose(order)
        return term.transpose([*order, self.rank]) * self.p.array([1, -1], term.dtype)

    def column(self, vector: TensorExpr) -> TensorExpr:
        """Return real vectors as columns of matrices."""
        return self.real(vector.op("expand_dims", axis=self.rank - 1))

    def row(self, vector: TensorExpr) -> TensorExpr:
        """Return real vectors as rows of matrices."""
        return self.real(vector.op("expand_dims", axis=self.rank - 2))

    def real(self, term: TensorExpr) -> TensorExpr:
        """Return real matrices as factors of those of the call."""
        return term.op("expand_dims", axis=self.rank) if self.pairs else term

    def unit(self, like: TensorExpr) -> TensorExpr:
        """Return ones where the row is the column, zeros elsewhere, in the shape of a term: real numbers."""
        return self.real(unit_matrix(self.p, self.parts(like)[0] if self.pairs else like))

    def lower(self, term: TensorExpr) -> TensorExpr:
        """Return the lower triangles."""
        if self.pairs:
            return self.join(
                *(part.op("trilu", self.p.array(0, "int32"), upper=False) for part in self.parts(term))
            )
        return term.op("trilu", self.p.array(0, "int32"), upper=False)

    def solve(self, matrix: TensorExpr, sides: TensorExpr) -> TensorExpr:
        """Solve equations of matrices."""
        return matrix.op("linalg.solve", sides, pairs=self.pairs)

    def diagonal(self, vector: TensorExpr, like: TensorExpr) -> TensorExpr:
        """Return real vectors as diagonals of matrices."""
        matrix = self.unit(like) * self.row(vector)
        return matrix * self.p.array([1, 0], matrix.dtype) if self.pairs else matrix

    def columns(self, term: TensorExpr, begin: int, end: int) -> TensorExpr:
        """Return some columns."""
        return term.between(self.rank - 1, begin, end)

    def rows(self, term: TensorExpr, begin: int, end: int) -> TensorExpr:
        """Return some rows."""
        return term.between(self.rank - 2, begin, end)


def matrices(p: VjpCall) -> Matrices:
    """Return arithmetic on the matrices of a call."""
    pairs = bool(p.attrs.get("pairs"))
    return Matrices(p, p.rank() - pairs, pairs)


#: (the call, arithmetic on its matrices) -> the contributions.
MatrixRule = Callable[[VjpCall, Matrices], Sequence[Contribution]]


def matrix_rule(name: str) -> Callable[[MatrixRule], MatrixRule]:
    """Declare the rule of an operator of matrices."""

    def enter(function: MatrixRule) -> MatrixRule:
        rule(name)(lambda p: function(p, matrices(p)))
        return function

    return enter


def unit_matrix(p: VjpCall, like: TensorExpr) -> TensorExpr:
    """Return ones where the row is the column, zeros elsewhere, in the shape of a term of real matrices."""
    ones = like.op("ones_like")
    lower = ones.op("trilu", p.array(0, "int32"), upper=False)
    return lower * ones.op("trilu", p.array(0, "int32"), upper=True)
