"""Which systems a test is for."""

import os

import pytest

#: For tests of what Windows lacks: forks, limits of resources, signals to threads, links without privileges.
POSIX = pytest.mark.skipif(os.name != "posix", reason="Windows has nothing like it")

#: Modules that want modules of POSIX.
POSIX_MODULES = (
    "cache/test_disk.py",
    "cache/test_stress.py",
    "test_fork_safety.py",
    "tinynn/test_fuzz.py",
)
