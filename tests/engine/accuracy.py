"""Arguments of every size for mathematical functions, and errors in units in the last place."""

import numpy as np


def everywhere(dtype, low, high):
    """Arguments of every exponent, dense ones between the limits, and the special ones."""
    integer, top = (np.uint32, 0x7F800000) if dtype == "float32" else (np.uint64, 0x7FF0000000000000)
    count = 1 << 14
    positive = (np.arange(count, dtype=object) * top // count).astype(integer).view(dtype)
    middle = np.linspace(low, high, count).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, tiny, -tiny, np.finfo(dtype).max], dtype)
    return np.concatenate([positive, -positive, middle, middle / np.finfo(dtype).maxexp, special])


def assert_within(result, expected, bound):
    """Every value within so many units in the last place; infinities, NaN and signs of zeros right."""
    with np.errstate(all="ignore"):
        nearest = expected.astype(result.dtype)
        unit = np.spacing(abs(nearest)).astype(expected.dtype)
        error = abs(result.astype(expected.dtype) - expected) / unit
    finite = np.isfinite(nearest)
    np.testing.assert_array_equal(result[~finite], nearest[~finite])
    np.testing.assert_array_equal(np.signbit(result[nearest == 0]), np.signbit(nearest[nearest == 0]))
    assert error[finite].max() <= bound
