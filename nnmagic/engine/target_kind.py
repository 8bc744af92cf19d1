"""Tell CPU targets from CUDA targets before the compiler is loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping


def is_cuda(target: str | Mapping[str, object] | None) -> bool:
    """Return whether a target is CUDA: its kind, TVM's JSON text or its dict of settings."""
    if isinstance(target, str) and target.startswith("{"):
        try:
            target = json.loads(target)
        except ValueError:  # which the compiler tells
            return False
    return (target.get("kind") if isinstance(target, Mapping) else target) == "cuda"
