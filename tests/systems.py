"""Which systems a test is for."""

import ctypes
import os

import pytest

#: For tests of what Windows lacks: forks, limits of resources, signals to threads, links without privileges.
POSIX = pytest.mark.skipif(os.name != "posix", reason="Windows has nothing like it")

#: Windows' Python runs on Linux: Wine answers in the place of Windows.
IS_WINE = os.name == "nt" and hasattr(ctypes.windll.ntdll, "wine_get_version")

#: For tests that torch is not imported: on Windows tvm_ffi wants it first, for a conflict of symbols.
WITHOUT_TORCH = pytest.mark.skipif(
    os.name == "nt", reason="Windows' tvm_ffi imports torch where it is installed"
)

#: Modules that want modules of POSIX.
POSIX_MODULES = (
    "cache/test_disk.py",
    "cache/test_stress.py",
    "test_fork_safety.py",
    "tinynn/fuzz/test_fuzz.py",
)
