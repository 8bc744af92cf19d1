"""Every row of the table, a file a family."""

from __future__ import annotations

from benchmarks.case import Row
from benchmarks.cases import (
    attention,
    calls,
    compiling,
    control_flow,
    convolutions,
    elementwise,
    models,
    named_sizes,
    networks,
    npbench,
    products,
    programs,
    rows,
    training,
    training_networks,
    training_series,
    transforms,
    vocabulary,
)

#: In the order of the table.
ROWS: tuple[Row, ...] = (
    *calls.ROWS,
    *products.ROWS,
    *elementwise.ROWS,
    *rows.ROWS,
    *transforms.ROWS,
    *attention.ROWS,
    *convolutions.ROWS,
    *networks.ROWS,
    *models.ROWS,
    *control_flow.ROWS,
    *npbench.ROWS,
    *programs.ROWS,
    *named_sizes.ROWS,
    *training.ROWS,
    *training_networks.ROWS,
    *training_series.ROWS,
    *compiling.ROWS,
    *vocabulary.ROWS,
)
