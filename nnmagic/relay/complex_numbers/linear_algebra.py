"""Lower linear algebra of complex matrices: LAPACK takes pairs of floats as they are."""

from __future__ import annotations

from nnmagic.relay.complex_numbers.site import Rule

RULES: dict[str, Rule] = dict.fromkeys(
    (
        *("linalg.solve", "linalg.inv", "linalg.cholesky", "linalg.slogdet", "linalg.qr", "linalg.svd"),
        *("linalg.eigh", "linalg.lu"),
    ),
    lambda site: site.call(*map(site.pairs, range(len(site.args))), pairs=True),
)
