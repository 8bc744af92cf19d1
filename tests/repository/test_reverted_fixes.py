"""tools/reverted_fixes.py in a small repository: the commits that it draws, and what it reports of suites."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.reverted_fixes import judge, merge, steps

TOOL = Path(__file__).parents[2] / "tools" / "reverted_fixes.py"
GIT = shutil.which("git")
ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
ENVIRON |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

HALF = "def half(x):\n    return x / 2\n"
TEST = "from nnmagic.half import half\n\n\ndef test_half():\n    assert half(3) == 1.5\n"
SIGNS = [
    f"def sign(x):\n    return {result}\n" for result in ("1", "1 if x > 0 else -1", "(x > 0) - (x < 0)")
]
#: Each commit's subject, and the files that it writes; it deletes those with None.
COMMITS: list[tuple[str, dict[str, str | None]]] = [
    (
        "feat: half and sign",
        {"nnmagic/__init__.py": "", "nnmagic/half.py": HALF.replace("/", "//"), "nnmagic/sign.py": SIGNS[0]},
    ),
    ("fix: sign of negative numbers", {"nnmagic/sign.py": SIGNS[1]}),  # conflicts with the next
    ("fix(sign): zero", {"nnmagic/sign.py": SIGNS[2]}),  # no test
    ("fix: half of odd numbers", {"nnmagic/half.py": HALF, "tests/test_half.py": TEST}),
    ("fix: docstring", {"nnmagic/__init__.py": '"""Arithmetic."""\n'}),
    ("fix: text of a test", {"tests/test_half.py": TEST + "\n\n# The end.\n"}),
    ("fix: a module for names", {"nnmagic/names.py": "NAME = 1\n"}),
    (
        "refactor: folders",
        {
            "nnmagic/half.py": None,
            "nnmagic/maths/__init__.py": "from nnmagic.names import NAME\n",  # needs what a fix added
            "nnmagic/maths/half.py": HALF,
            "tests/test_half.py": None,
            "tests/maths/test_half.py": TEST.replace("nnmagic", "nnmagic.maths"),
        },
    ),
]

#: A command that calls the tests in files, and exits as pytest does.
PYTHON = [sys.executable, "-c"]
SUITE = [
    *PYTHON,
    """import runpy, sys
for path in sys.argv[1:]:
    try:
        runpy.run_path(path.partition("::")[0])["test_half"]()
    except AssertionError:
        print("= short test summary info =\\nFAILED", path.partition("::")[0] + "::test_half")
        sys.exit(1)""",
]

pytestmark = pytest.mark.skipif(GIT is None, reason="needs Git")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository of the commits, with the fixes that can be reverted in fixes.txt."""
    folder = tmp_path_factory.mktemp("repository")
    git = [GIT, "-c", "user.name=a", "-c", "user.email=a", "-C", str(folder)]
    subprocess.run([*git, "init", "--quiet"], env=ENVIRON, check=True)
    for subject, files in COMMITS:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink() if text is None else path.write_text(text, encoding="utf-8", newline="\n")
        subprocess.run([*git, "add", "--all"], env=ENVIRON, check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", subject], env=ENVIRON, check=True)
    drawn = call(folder, "draw", "9")
    (folder / "fixes.txt").write_text(drawn.stdout, encoding="utf-8")
    return folder


def call(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tool in a repository."""
    command = [sys.executable, str(TOOL), *arguments]
    return subprocess.run(command, cwd=repository, env=ENVIRON, capture_output=True, text=True, check=False)


def test_draw_finds_fixes_that_can_be_reverted(repository: Path) -> None:
    lines = (repository / "fixes.txt").read_text(encoding="utf-8").splitlines()
    assert {line.split(maxsplit=1)[1] for line in lines} == {"fix(sign): zero", "fix: half of odd numbers"}


def test_draw_is_decided_by_its_seed(repository: Path) -> None:
    both = (repository / "fixes.txt").read_text(encoding="utf-8")
    one = call(repository, "draw", "1")
    assert both.startswith(one.stdout)
    assert one.stdout.count("\n") == 1
    assert "3 of 6 fixes revert without conflict" in one.stderr


def test_nothing_is_added_to_the_repository(repository: Path) -> None:
    before = sorted(repository.rglob("*"))
    assert call(repository, "draw", "9").stdout
    assert sorted(repository.rglob("*")) == before


def test_ask_says_which_fixes_are_noticed(repository: Path) -> None:
    shutil.copy(repository / "fixes.txt", noted := repository / "noted.txt")
    asked = call(repository, "ask", "noted.txt", "--write", "--least", "2", "--", *SUITE)
    assert asked.returncode == 1
    assert asked.stdout.splitlines()[-1] == "1 of 2 noticed"
    after = dict(re.findall(r"^\w+ (.*)((?:\n .*)?)", noted.read_text(encoding="utf-8"), re.MULTILINE))
    assert after == {
        "fix: half of odd numbers": "\n    tests/maths/test_half.py::test_half",
        "fix(sign): zero": "",
    }
    assert all(subject in asked.stdout for subject in after)
    again = call(repository, "ask", "noted.txt", "--write", "--least", "1", "--", *SUITE)
    assert (again.returncode, again.stdout.count("tests/maths/test_half.py::test_half")) == (0, 1)


def test_ask_runs_the_whole_suite_at_last(repository: Path) -> None:
    suite = [
        *PYTHON,
        "import sys; from nnmagic import sign; sys.exit(not sys.argv[1:] and sign.sign(0) != 0)",
    ]
    asked = call(repository, "ask", "fixes.txt", "--whole", "--least", "1", "--", *suite)
    assert asked.returncode == 0
    assert asked.stdout.splitlines()[-1] == "1 of 2 noticed"


def test_ask_says_that_a_test_fails_on_head(repository: Path) -> None:
    fails = [*PYTHON, "import sys; print(' short test summary info \\nFAILED a.py::b'); sys.exit(1)"]
    asked = call(repository, "ask", "fixes.txt", "--", *fails)
    assert (asked.returncode, asked.stderr) == (1, "The command fails where nothing is reverted: a.py::b\n")


@pytest.mark.parametrize(
    ("ours", "base", "theirs", "merged"),
    [
        ("f(a, b=2)\n", "f(a, b=1)\n", "f(c, b=1)\n", "f(c, b=2)\n"),
        ("x = new + 1  # one\n", "x = old + 1\n", "x = old - 1\n", "x = new - 1  # one\n"),
        ("y = limit if limit else 0\n", "y = top if top else 0\n", "y = top\n", "y = limit\n"),
        ("x = a * 2\n", "x = a + 1\n", "x = a - 1\n", None),
    ],
)
def test_changes_on_one_line_are_merged(ours: str, base: str, theirs: str, merged: str | None) -> None:
    assert merge(ours, base, theirs, is_python=True) == merged


@pytest.mark.parametrize(
    ("status", "line", "found"),
    [
        (0, "", ("missed", "")),
        (5, "", ("missed", "")),
        (
            1,
            "FAILED tests/test_a.py::test_b[1-2] - assert 1 == 2",
            ("noticed", "tests/test_a.py::test_b[1-2]"),
        ),
        (1, "ERROR tests/test_a.py::test_b", ("noticed", "tests/test_a.py::test_b")),
        (2, "ERROR tests/test_a.py - ImportError", ("noticed", "tests/test_a.py (cannot be collected)")),
        (2, "!!! KeyboardInterrupt !!!", ("error", "exit status 2: !!! KeyboardInterrupt !!!")),
        (3, "Internal error", ("error", "exit status 3: Internal error")),
        (-8, '  File "/tmp/tests/test_a.py", line 3 in test_b', ("noticed", "tests/test_a.py::test_b")),
    ],
)
def test_verdicts_follow_the_exit_status_of_pytest(status: int, line: str, found: tuple[str, str]) -> None:
    log = "ERROR tests/test_log.py - logged, not in the summary\n"
    assert judge(status, f"{log}=== short test summary info ===\nSKIPPED [1] a\n{line}") == found


@pytest.mark.parametrize(
    ("note", "whole", "run"),
    [
        ("", False, ["a b", "c"]),
        ("(dead code)", True, ["a b", "c", ""]),
        ("a::test_x[1 2]", False, ["a::test_x[1 2]", "a b", "c"]),
    ],
)
def test_steps(note: str, *, whole: bool, run: list[str]) -> None:
    assert [" ".join(step) for step in steps(note, ["a", "b"], ["b", "c"], whole=whole)] == run
