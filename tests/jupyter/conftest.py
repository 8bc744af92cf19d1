"""One kernel for all tests of notebooks in a process; each module gets it as new."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernels import Kernel, new_kernel


@pytest.fixture(scope="session")
def session_kernel() -> Iterator[Kernel]:
    with new_kernel() as made:
        yield made


@pytest.fixture(scope="module")
def kernel(session_kernel: Kernel) -> Kernel:
    """Return a kernel as at its start. A test that needs a new process takes `tests.kernels.new_kernel`."""
    session_kernel.renew()
    return session_kernel
