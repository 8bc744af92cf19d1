"""Compare the indices of a loop nest: polynomials over loop variables, sizes and other names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

#: A product of names, sorted; the empty one is 1.
_Product = tuple[str, ...]

#: The largest factor of a variable: a product with the number of a round is then far from 64 bits.
_MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class IndexPolynomial:
    """A sum of products of names, each times an integer that is not 0."""

    terms: Mapping[_Product, int] = field(default_factory=dict)

    def __add__(self, other: IndexPolynomial) -> IndexPolynomial:
        terms = dict(self.terms)
        for product, factor in other.terms.items():
            terms[product] = terms.get(product, 0) + factor
        return IndexPolynomial({product: factor for product, factor in terms.items() if factor})

    def __neg__(self) -> IndexPolynomial:
        return IndexPolynomial({product: -factor for product, factor in self.terms.items()})

    def __sub__(self, other: IndexPolynomial) -> IndexPolynomial:
        return self + -other

    def __mul__(self, other: IndexPolynomial) -> IndexPolynomial:
        result = IndexPolynomial()
        for lhs, factor in self.terms.items():
            for rhs, other_factor in other.terms.items():
                product = tuple(sorted((*lhs, *rhs)))
                result += IndexPolynomial({product: factor * other_factor})
        return result

    @property
    def constant(self) -> int | None:
        """The value if it is a number; else None."""
        if not self.terms.keys() - {()}:
            return self.terms.get((), 0)
        return None

    def names(self) -> set[str]:
        """Return the names in it."""
        return {name for product in self.terms for name in product}

    def split(self, name: str) -> tuple[IndexPolynomial, IndexPolynomial] | None:
        """Return the factor of a name, and what stands beside; None where it has powers."""
        factor, remainder = dict[_Product, int](), dict[_Product, int]()
        for product, number in self.terms.items():
            count = product.count(name)
            if count > 1:
                return None
            if count:
                factor[tuple(other for other in product if other != name)] = number
            else:
                remainder[product] = number
        return IndexPolynomial(factor), IndexPolynomial(remainder)

    def rename(self, names: Mapping[str, str]) -> IndexPolynomial:
        """Return the same with other names."""
        result = IndexPolynomial()
        for product, factor in self.terms.items():
            renamed = tuple(sorted(names.get(name, name) for name in product))
            result += IndexPolynomial({renamed: factor})
        return result


def number(value: int) -> IndexPolynomial:
    """Return a number as a polynomial."""
    return IndexPolynomial({(): value} if value else {})


def of_name(name: str) -> IndexPolynomial:
    """Return a name as a polynomial."""
    return IndexPolynomial({(name,): 1})


@dataclass(frozen=True, slots=True)
class Interval:
    """The least and the greatest value of a loop variable; None where it is not known."""

    low: IndexPolynomial | None
    high: IndexPolynomial | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known of names: intervals of loop variables, outer ones first, and sizes, at least 0."""

    variables: Mapping[str, Interval]
    sizes: Collection[str]

    def is_negative_nowhere(self, value: IndexPolynomial) -> bool:
        """Return whether a value is certainly 0 or more; False where no proof is found."""
        for name in reversed(list(self.variables)):
            parts = value.split(name)
            if parts is None:
                return False
            factor, rest = parts
            if not factor.terms:
                continue
            interval = self.variables[name]
            if self._is_plain(factor):
                bound = interval.low
            elif self._is_plain(-factor):
                bound = interval.high
            else:
                return False
            if bound is None:
                return False
            value = rest + factor * bound
        return self._is_plain(value)

    def _is_plain(self, value: IndexPolynomial) -> bool:
        """Return whether each term of a value is 0 or more."""
        return all(
            factor > 0 and all(name in self.sizes for name in product)
            for product, factor in value.terms.items()
        )


def differ(lhs: IndexPolynomial, rhs: IndexPolynomial, variable: str, bounds: Bounds) -> bool:
    """Return whether two indices differ in any two different rounds of a loop; False without a proof.

    The names of what changes in a round, the loop's ``variable`` among them, end in ``'`` in ``rhs``.
    """
    if not (bounds.is_negative_nowhere(lhs) and bounds.is_negative_nowhere(rhs)):
        return False  # it may count from the end
    one = number(1)
    if bounds.is_negative_nowhere(lhs - rhs - one) or bounds.is_negative_nowhere(rhs - lhs - one):
        return True
    terms, other = lhs.split(variable), rhs.split(f"{variable}'")
    if terms is None or other is None or terms[0] != other[0] or not terms[0].terms:
        return False
    factor, distance = terms[0], terms[1] - other[1]
    constant, apart = factor.constant, distance.constant
    if constant is not None and abs(constant) > _MOST:
        return False
    if constant is not None and apart is not None and apart % constant:
        return True
    for positive in (factor, -factor):
        if bounds.is_negative_nowhere(positive - distance - one) and bounds.is_negative_nowhere(
            positive + distance - one
        ):
            return True
    return False


def distance_of(lhs: IndexPolynomial, rhs: IndexPolynomial, variable: str, bounds: Bounds) -> int | None:
    """Return how many rounds after ``lhs`` the index ``rhs`` is equal; None where that varies."""
    if not (bounds.is_negative_nowhere(lhs) and bounds.is_negative_nowhere(rhs)):
        return None
    terms, other = lhs.split(variable), rhs.split(f"{variable}'")
    if terms is None or other is None or terms[0] != other[0]:
        return None
    factor, apart = terms[0].constant, (terms[1] - other[1]).constant
    if factor is None or apart is None or not 0 < abs(factor) <= _MOST or apart % factor:
        return None
    return apart // factor
