"""Measures which bugs a test suite notices: `reverted_fixes.py draw COUNT`, or `ask LIST -- COMMAND`.

`draw` prints commits that fixed a bug and can be reverted on the tree of HEAD. Only the change of `nnmagic/`
is reverted: it must not conflict, it must change code, and modules must still be importable. `ask` reverts
each commit of a list in a scratch clone and runs COMMAND there, usually pytest. `{tests}` stands for the test
files that the commit touched. Uncommitted changes take no part. Needs Git 2.38 or later.

    python tools/reverted_fixes.py draw 60 > tools/reverted_fixes.txt
    python tools/reverted_fixes.py ask tools/reverted_fixes.txt --touched-first -- python -m pytest -x -q
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

PRODUCT, TESTS = "nnmagic", "tests"
GIT = shutil.which("git") or "git"
#: Commits need an author; a file that is restored goes where the files of its folder went.
SETTINGS = ("-c", "user.name=none", "-c", "user.email=none", "-c", "merge.directoryRenames=true")
IMPORT = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: A line of pytest's short summary.
FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a test suite finds when one commit is reverted.

    The verdict is "noticed", "missed", "error" if the exit status says neither, or "conflict" if the commit
    can no longer be reverted. The detail names the first test that fails.
    """

    commit: str
    subject: str
    tests: list[str]
    verdict: str
    detail: str = ""
    seconds: float = 0.0


def git(*arguments: str | Path, stdin: str | None = None, accepted: tuple[int, ...] = (0,)) -> str:
    """Return what a Git command prints; exit with its message if its exit status is not accepted."""
    command = [GIT, *SETTINGS, *map(str, arguments)]
    done = subprocess.run(command, input=stdin, capture_output=True, encoding="utf-8", check=False)
    if done.returncode not in accepted:
        sys.exit(f"git {' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def scratch_clone() -> Iterator[None]:
    """Work in a temporary clone, which shares the objects of the repository and adds none to it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="reverted-fixes-", ignore_cleanup_errors=True) as folder:
        git("clone", "--quiet", "--shared", git("rev-parse", "--show-toplevel"), folder)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def check_out(tree: str) -> None:
    """Check out the files of a tree and remove all others: bytecode of the last run may be stale."""
    git("clean", "-ffdxq")
    git("read-tree", "--reset", "-u", tree)


def reverted_tree(commit: str) -> str | None:
    """Return HEAD's tree without a commit's change of the product; None if it conflicts or nothing changes.

    Merges HEAD with a child of the commit in which the product is as before the commit. A merge follows files
    that were renamed since; a patch does not.
    """
    before = git("ls-tree", f"{commit}^", PRODUCT)
    others = [line for line in git("ls-tree", commit).splitlines() if not line.endswith(f"\t{PRODUCT}")]
    tree = git("mktree", stdin="\n".join([before, *others]))
    child = git("commit-tree", tree, "-p", commit, "-m", f"Revert {commit}")
    merged, *conflicts = git("merge-tree", "--write-tree", "HEAD", child, accepted=(0, 1)).splitlines()
    return None if conflicts or merged == git("rev-parse", "HEAD^{tree}") else merged


def changed_modules(tree: str) -> dict[str, str]:
    """Return the paths of the product's modules that differ from HEAD, each with its status in `git diff`."""
    changes = git("diff", "--no-renames", "--name-status", "HEAD", tree, "--", f"{PRODUCT}/*.py")
    return {path: status for status, path in (line.split("\t") for line in changes.splitlines())}


def code(tree: str, path: str) -> str:
    """Return a module's syntax tree as text, without docstrings."""
    module = ast.parse(git("show", f"{tree}:{path}"))
    for node in ast.walk(module):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(module)


def changes_code(tree: str) -> bool:
    """Return whether a tree's product differs from HEAD's in more than comments, docstrings and layout."""
    changes = changed_modules(tree).items()
    return any(status != "M" or code("HEAD", path) != code(tree, path) for path, status in changes)


def can_be_imported(tree: str) -> bool:
    """Return whether the product's packages, and the modules that differ from HEAD, can be imported."""
    check_out(tree)
    packages = [path.parent for path in Path(PRODUCT).glob("*/__init__.py")]
    modules = [Path(path).with_suffix("") for path in changed_modules(tree) if Path(path).exists()]
    names = [".".join(path.parts).removesuffix(".__init__") for path in [*packages, *modules]]
    return run([sys.executable, "-c", IMPORT, PRODUCT, *names])[0] == 0


def touched_tests(commit: str) -> list[str]:
    """Return the test files that a commit changed, by their names in HEAD."""
    changed = git("diff", "--no-renames", "--name-only", f"{commit}^", commit, "--", TESTS).splitlines()
    paths = {path for path in changed if PurePosixPath(path).match("test_*.py")}
    log = ("log", "--reverse", "--topo-order", "--find-renames", "--diff-filter=R", "--name-status")
    for line in git(*log, "--format=", f"{commit}..HEAD", "--", TESTS).splitlines():
        _, old, new = line.split("\t")
        paths = {new if path == old else path for path in paths}
    return sorted(paths & {*git("ls-tree", "-r", "--name-only", "HEAD", TESTS).splitlines()})


def run(command: list[str]) -> tuple[int, str]:
    """Run a command on the clone's product, with an empty cache; return its exit status and its output."""
    cache = tempfile.TemporaryDirectory(prefix="nnmagic-cache-", ignore_cleanup_errors=True)
    # A file, no pipe: a process that outlives the command would hold the pipe open.
    with cache, tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        environ = {**os.environ, "PYTHONPATH": str(Path.cwd()), "NNMAGIC_CACHE_DIR": cache.name}
        done = subprocess.run(command, env=environ, stdout=output, stderr=subprocess.STDOUT, check=False)
        output.seek(0)
        return done.returncode, output.read()


def judge(status: int, output: str) -> tuple[str, str]:
    """Return the verdict of a run of pytest, and the first failure that its short summary names."""
    if status in {0, 5}:  # 5: there are no tests
        return "missed", ""
    failure = FAILURE.search(output.rpartition(" short test summary info ")[2])
    if status == 1 or (status == 2 and failure):  # 2: collection fails, or pytest-xdist stops early for -x
        name = failure[1] if failure else ""
        return "noticed", name if "::" in name or not name else f"{name} (cannot be collected)"
    return "error", ": ".join([f"exit status {status}", *output.splitlines()[-1:]])


def steps(command: list[str], tests: list[str], *, touched_first: bool) -> list[list[str]]:
    """Return the commands to run until one fails; none if `{tests}` is empty, since pytest would run all."""
    if "{tests}" in command:
        place = command.index("{tests}")
        return [[*command[:place], *tests, *command[place + 1 :]]] if tests else []
    return [[*command, *tests], command] if touched_first and tests else [command]


def ask(commit: str, subject: str, options: argparse.Namespace) -> Outcome:
    """Revert a commit and run the command."""
    tests, tree = touched_tests(commit), reverted_tree(commit)
    if tree is None:
        return Outcome(commit, subject, tests, "conflict")
    verdict, detail, start = "missed", "", time.monotonic()
    for step in steps(options.command, tests, touched_first=options.touched_first):
        check_out(tree)
        verdict, detail = judge(*run(step))
        if verdict != "missed":
            break
    return Outcome(commit, subject, tests, verdict, detail, round(time.monotonic() - start, 1))


def ask_about_list(options: argparse.Namespace) -> int:
    """Print what the suite finds for each commit of a list; return the exit status."""
    lines = options.list.read_text(encoding="utf-8").splitlines()
    commits = [line.split(maxsplit=1) for line in lines if line.startswith(tuple(options.only))]
    report, outcomes = options.json and options.json.absolute(), []
    with scratch_clone():
        if options.check:
            tests = {path for commit, _ in commits for path in touched_tests(commit)}
            for step in steps(options.command, sorted(tests), touched_first=False):
                verdict, detail = judge(*run(step))
                if verdict != "missed":
                    sys.exit(f"The command fails where nothing is reverted: {detail or verdict}")
        for commit, subject in commits:
            outcomes.append(found := ask(commit, subject, options))
            line = f"{commit} {found.verdict:8} {found.seconds:6.1f} s  {found.detail or '-'}  {subject}"
            print(line, flush=True)
            if report:
                report.write_text(json.dumps([*map(asdict, outcomes)], indent=1), encoding="utf-8")
    count = Counter(outcome.verdict for outcome in outcomes)
    others = "".join(f", {count[name]} {name}" for name in ("error", "conflict") if count[name])
    print(f"{count['noticed']} of {len(outcomes) - count['conflict']} noticed{others}")
    return int(count["noticed"] < options.least)


def draw(options: argparse.Namespace) -> int:
    """Print commits that can be reverted, in a random order that new commits do not change."""
    log = git("log", "--no-merges", "--min-parents=1", "--abbrev=12", "--format=%h %s").splitlines()
    fixes = [line for line in log if re.match(r"\w+ fix[:(]", line)]
    fixes.sort(key=lambda line: hashlib.sha256(f"{options.seed} {line}".encode()).digest())
    with scratch_clone():
        trees = {line: tree for line in fixes if (tree := reverted_tree(line.split()[0]))}
        suited = (line for line, tree in trees.items() if can_be_imported(tree) and changes_code(tree))
        for line in islice(suited, options.count):
            print(line, flush=True)
    print(f"{len(trees)} of {len(fixes)} fixes revert without conflict", file=sys.stderr)
    return 0


def main() -> int:
    """Run the command line."""
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    drawing = actions.add_parser("draw", help="print commits that can be reverted")
    drawing.add_argument("count", type=int)
    drawing.add_argument("--seed", type=int, default=0)
    asking = actions.add_parser("ask", help="run a command without each of the listed commits: -- COMMAND")
    asking.add_argument("list", type=Path, help="what draw printed")
    asking.add_argument("--json", type=Path, help="write the outcomes to this file")
    asking.add_argument("--only", nargs="+", metavar="HASH", default=[""], help="ask about these only")
    asking.add_argument("--touched-first", action="store_true", help="run the touched test files before")
    asking.add_argument("--check", action="store_true", help="run the command on HEAD before")
    asking.add_argument("--least", type=int, default=0, help="exit with 1 if fewer commits are noticed")
    options = parser.parse_args(sys.argv[1:split])
    options.command = sys.argv[split + 1 :]
    if options.action == "draw":
        return draw(options)
    if not options.command or (options.touched_first and "{tests}" in options.command):
        parser.error("ask needs `-- COMMAND`, and no {tests} in it with --touched-first.")
    if os.sep in options.command[0]:  # it runs in another folder
        options.command[0] = str(Path(options.command[0]).absolute())
    return ask_about_list(options)


if __name__ == "__main__":
    sys.exit(main())
