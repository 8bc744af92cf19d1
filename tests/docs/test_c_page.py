"""The page about C (docs/c.md): its code runs, and its program prints what the page says."""

from __future__ import annotations

import importlib.util
import linecache
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "c.md"


@pytest.mark.full
def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8")
    names: dict[str, object] = {}
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)):
        if "scipy" in block and importlib.util.find_spec("scipy") is None:
            continue
        filename = f"<c page {number}>"
        linecache.cache[filename] = (len(block), None, block.splitlines(keepends=True), filename)
        exec(compile(block, filename, "exec"), names)
    header, program = re.findall(r"^```c\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert header in Path("smooth.h").read_text("utf-8")
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("there is no compiler of C here")
    Path("main.c").write_text(program, "utf-8")
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "main.c", "smooth.o", "-lm"], check=True)
    printed = subprocess.run(["./a.out"], check=True, capture_output=True, text=True).stdout
    assert f"`{printed.strip()}`" in text
