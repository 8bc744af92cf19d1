"""Print what nnmagic finds on this machine: ``python -m nnmagic``; fails if functions cannot be compiled."""

from __future__ import annotations

import sys

from nnmagic.functions.inspection.doctor import examine

if __name__ == "__main__":
    text, works = examine()
    print(text)  # noqa: T201 - what was asked for
    sys.exit(not works)
