"""Lower linear algebra of complex matrices: LAPACK takes pairs of floats as they are."""

from __future__ import annotations

from nnmagic.relay import expr as ir
from nnmagic.relay.complex_numbers.site import ComplexCall, Rule


def _on_pairs(site: ComplexCall) -> ir.Expr:
    return site.call(*map(site.pairs, range(len(site.args))), pairs=True)


RULES: dict[str, Rule] = dict.fromkeys(
    (
        *("linalg.solve", "linalg.inv", "linalg.cholesky", "linalg.slogdet", "linalg.qr", "linalg.svd"),
        *("linalg.eigh", "linalg.lu"),
    ),
    _on_pairs,
)
