"""The CPUs that kernels are compiled for in tests: this one, and an older one of the same architecture."""

import platform

#: With vectors of another width where this machine has wide ones.
OLDER_CPU = "haswell" if platform.machine() in ("x86_64", "AMD64") else "cortex-a72"
OLDER = {"kind": "llvm", "mcpu": OLDER_CPU}
