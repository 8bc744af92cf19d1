"""What a case costs: seconds of the processor, so that a busy machine makes no test fail."""

from __future__ import annotations

import time
from dataclasses import dataclass

try:
    import resource
except ImportError:  # Windows
    resource = None

#: Seconds of the processor that a case of the default suite may take on a machine like the one it was set on.
BUDGET = 1.0
#: How far a case may exceed its budget: who shares a core with others may take twice as long.
_MARGIN = 2.5
#: A case that imports so many modules pays what the others share: the compiler, TVM, SciPy.
_MANY_MODULES = 20
#: Seconds that `_count` takes on the machine that the budget was set on.
_USUAL = 0.045


def spent() -> float:
    """Return the seconds that all threads of this process, and its children that have ended, have used."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN) if resource else None
    return time.process_time() + (children.ru_utime + children.ru_stime if children else 0.0)


@dataclass(frozen=True)
class Cost:
    """What a case has used: seconds of the processor, and how many modules it was the first to import."""

    seconds: float
    modules: int

    def excess(self, budget: float = BUDGET) -> str:
        """Return what is wrong with the cost; nothing where a case keeps to the budget, in seconds."""
        allowed = budget * _MARGIN
        if self.seconds <= allowed or self.modules >= _MANY_MODULES or self.seconds <= allowed * _slowness():
            return ""
        return (
            f"This case took {self.seconds:.1f} s of the processor; the default suite allows {budget:.0f} s. "
            "Make it cheaper (the engine `numpy` says what a cell means), or mark it `@pytest.mark.full`."
        )


def _slowness() -> float:
    """Return how many times as long as usual this machine takes now, at least 1."""
    return max(1.0, min(_count() for _ in range(3)) / _USUAL)


def _count() -> float:
    start = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number & 3
    return time.process_time() - start
