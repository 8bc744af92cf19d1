"""Let hatchling package what ``assemble`` gathers; an sdist has it already."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

from assemble import SOURCES, assemble


class AssembleHook(BuildHookInterface[Any]):
    """Gathers the package before it is packed."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Name the folder that is packed."""
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self.root)
        if SOURCES.is_dir():
            folder = Path(self._folder.name)
            assemble(folder)
        build_data["force_include"][str(folder / "nnmagic_runtime")] = "nnmagic_runtime"

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        """Remove the folder."""
        self._folder.cleanup()
