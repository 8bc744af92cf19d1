"""Measures which bugs a test suite notices: `reverted_fixes.py draw COUNT`, or `ask LIST -- COMMAND`.

`draw` prints commits that fixed a bug and can be reverted on the tree of HEAD. Only the change of `nnmagic/`
is reverted: it must not conflict, it must change code, and modules must still find the names that they use.
Files are merged token by token and followed through renames, so that a change beside the fix is no conflict.

`ask` reverts each commit of a list in a scratch clone and runs COMMAND there, usually pytest, with names of
tests: the one that LIST notes below the commit, then the test files that the commit touched, then those that
mirror or name the modules that change. `--write` notes in LIST the first test that fails. A commit with a
note in brackets, why no test here can notice it, is set aside. Uncommitted changes take no part.

    python tools/reverted_fixes.py draw 60 > tools/reverted_fixes.txt
    python tools/reverted_fixes.py ask tools/reverted_fixes.txt --write -- python -m pytest -x -q --default
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import io
import json
import keyword
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath

PRODUCT, TESTS = "nnmagic", "tests"
GIT = shutil.which("git") or "git"
SETTINGS = ("-c", "diff.renameLimit=0")
RENAMES = "--find-renames=40%"
#: Imports all modules of the product whose libraries are installed, and looks up the globals that the code of
#: the named files uses: a revert that only takes away a name is noticed by anything.
IMPORT = """
import builtins, dis, importlib, pathlib, sys, types
def check(code, names):
    if any(each.opname == "LOAD_GLOBAL" and each.argval not in names for each in dis.get_instructions(code)):
        sys.exit(f"{code.co_filename}: an unknown name")
    for each in code.co_consts:
        isinstance(each, types.CodeType) and check(each, names)
for path in (each for each in pathlib.Path("nnmagic").rglob("*.py") if each.stem != "__main__"):
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").startswith("nnmagic"):
            raise
        continue
    if str(path) in sys.argv[1:]:
        check(compile(path.read_bytes(), path, "exec"), {*vars(module), *vars(builtins)})
"""
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NAME = re.compile(r"(\s*)([^\W\d]\w*)")
#: A token that means nothing: a comment, a docstring, white space.
REMARK = re.compile(r'\s*(#[^\n]*|[rf]?"""(.|\n)*""")?\s*')
#: What faulthandler says of the test in which a process dies.
DEATH = re.compile(rf'File ".*?({TESTS}/[^"]*)", line \d+ in (test_\w+)')
#: A line of pytest's short summary.
FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a test suite finds when one commit is reverted.

    The verdict is "noticed", "missed", "aside", "error" if the exit status says nothing, or "conflict" if the
    commit can no longer be reverted. The detail names the first test that fails.
    """

    commit: str
    subject: str
    note: str = ""  # below the commit in the list
    verdict: str = ""
    detail: str = ""
    seconds: float = 0.0

    def text(self) -> str:
        """Return the lines of the list about the commit."""
        note = self.detail if self.verdict in {"noticed", "missed"} else self.note
        return f"{self.commit} {self.subject}\n" + (f"    {note}\n" if note else "")


def git(*arguments: str | Path) -> str:
    """Return what a Git command prints; exit with its message if it fails."""
    command = [GIT, *SETTINGS, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
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


def tokens(text: str, *, is_python: bool) -> list[str]:
    """Return the tokens of Python, each with the white space before it, or the lines of other text."""
    lines = text.splitlines(keepends=True)
    if not is_python:
        return lines
    starts, found, at = [0], [], 0
    for line in lines:
        starts.append(starts[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.end
        end = min(starts[min(row - 1, len(lines))] + column, len(text))
        if end > at:
            found.append(text[at:end])
            at = end
    return found


def without_remarks(region: Sequence[str]) -> list[str]:
    """Return tokens without the white space before them, and without comments and docstrings."""
    return [token.strip() for token in region if not REMARK.fullmatch(token)]


def settled(ours: Sequence[str], base: Sequence[str], theirs: Sequence[str]) -> Sequence[str] | None:
    """Return the tokens of a region that both sides changed, where that is no conflict; None otherwise.

    It is none if one side changed comments only, or if ours only gives other names to what base names.
    """
    mine, before = without_remarks(ours), without_remarks(base)
    if before == without_remarks(theirs):
        return ours
    if len(mine) != len(before):
        return None
    names: dict[str, str] = {}
    for new, old in zip(mine, before, strict=True):
        words = all(NAME.fullmatch(each) and not keyword.iskeyword(each) for each in (new, old))
        if names.setdefault(old, new) != new or (new != old and not words):
            return None
    matches = ((token, NAME.fullmatch(token)) for token in theirs)
    return [found[1] + names.get(found[2], found[2]) if found else token for token, found in matches]


def merge(ours: str, base: str, theirs: str, *, is_python: bool) -> str | None:
    """Return text with the changes of both sides; None if they conflict."""
    with tempfile.TemporaryDirectory(prefix="merge-") as folder:
        paths = [Path(folder, side) for side in ("ours", "base", "theirs")]
        for path, text in zip(paths, (ours, base, theirs), strict=True):
            lines = [json.dumps(token) + "\n" for token in tokens(text, is_python=is_python)]
            path.write_text("".join(lines), encoding="utf-8", newline="\n")
        command = [GIT, "merge-file", "-p", "--diff3", *map(str, paths)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    merged: list[str] = []
    sides: list[list[str]] = [merged]
    for line in done.stdout.splitlines():
        if line.startswith('"'):
            sides[-1].append(json.loads(line))
        elif line.startswith(">"):
            region = settled(*sides[1:])
            if region is None:
                return None
            merged += region
            sides = [merged]
        else:
            sides.append([])
    return "".join(merged)


@cache
def renames() -> list[tuple[str, str, str]]:
    """Return the commits that rename files, with the old and the new names, in the order of the history."""
    found, commit = [], ""
    log = ("log", "--reverse", "--topo-order", RENAMES, "--diff-filter=R", "--name-status", "--format=%H")
    for line in git(*log, "HEAD").splitlines():
        match line.split("\t"):
            case [_, old, new]:
                found.append((commit, old, new))
            case [text] if text:
                commit = text
    return found


def names_in_head(commit: str, paths: Sequence[str]) -> list[str | None]:
    """Return the names that files of a commit have in HEAD; None for those that are gone."""
    later = {*git("rev-list", f"{commit}..HEAD").splitlines()}
    for renaming, old, new in renames():
        if renaming in later:
            paths = [new if path == old else path for path in paths]
    files = {*git("ls-tree", "-r", "--name-only", "HEAD").splitlines()}
    return [path if path in files else None for path in paths]


def reverted_files(commit: str) -> dict[str, str] | None:
    """Return the texts of HEAD's files without a commit's change of the product; None if it conflicts.

    Only files that the commit changed are changed back. A file that it added stays, unused.
    """
    diff = git("diff", RENAMES, "--diff-filter=MR", "--name-status", f"{commit}^", commit, "--", PRODUCT)
    changes = [line.split("\t")[1:] for line in diff.splitlines() if not line.endswith(".pyi")]
    found = {}
    for change, path in zip(changes, names_in_head(commit, [each[-1] for each in changes]), strict=True):
        if path is None:
            return None
        versions = [("HEAD", path), (commit, change[-1]), (f"{commit}^", change[0])]
        ours, *others = (git("show", f"{version}:{name}") + "\n" for version, name in versions)
        merged = merge(ours, *others, is_python=path.endswith(".py"))
        if merged is None:
            return None
        if merged != ours:
            found[path] = merged
    return found


def check_out(files: dict[str, str]) -> None:
    """Check out HEAD with other texts of some files: bytecode of the last run may be stale."""
    git("clean", "-ffdxq")
    git("read-tree", "--reset", "-u", "HEAD")
    for path, text in files.items():
        Path(path).write_text(text, encoding="utf-8", newline="\n")


def code(text: str) -> str:
    """Return a module's syntax tree as text, without docstrings."""
    module = ast.parse(text)
    for node in ast.walk(module):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(module)


def changes_code(files: dict[str, str]) -> bool:
    """Return whether Python modules differ from HEAD's in more than comments, docstrings and layout."""
    texts = [(git("show", f"HEAD:{path}"), text) for path, text in files.items() if path.endswith(".py")]
    try:
        return any(code(before) != code(text) for before, text in texts)
    except SyntaxError:
        return False


def can_be_imported(files: dict[str, str]) -> bool:
    """Return whether the product's modules can be imported, and files use names only that there are."""
    check_out(files)
    return run([sys.executable, "-c", IMPORT, *files])[0] == 0


def touched_tests(commit: str) -> list[str]:
    """Return the test files that a commit changed, by their names in HEAD."""
    changed = git("diff", "--no-renames", "--name-only", f"{commit}^", commit, "--", TESTS).splitlines()
    names = names_in_head(commit, [path for path in changed if PurePosixPath(path).match("test_*.py")])
    return sorted({path for path in names if path})


def near_tests(paths: Iterable[str]) -> list[str]:
    """Return the test files that mirror modules of the product, or name them."""
    modules = [PurePosixPath(path).with_suffix("") for path in paths]
    mirrors = {f"{TESTS}/{each.relative_to(PRODUCT).parent}/test_{each.name}.py" for each in modules}
    names = [(".".join(each.parent.parts), each.name) for each in modules]
    patterns = [rf"\b{folder}(\.| import .*?\b){name}\b" for folder, name in names]
    named = re.compile("|".join(patterns) or "(?!)")
    files = [path.as_posix() for path in Path(TESTS).rglob("test_*.py")]
    return sorted(
        path for path in files if path in mirrors or named.search(Path(path).read_text(encoding="utf-8"))
    )


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
    if status < 0:  # a signal ended it, as where machine code divides by zero
        died = DEATH.search(output)
        return "noticed", "::".join(died.groups()) if died else ""
    return "error", ": ".join([f"exit status {status}", *output.splitlines()[-1:]])


def steps(note: str, touched: list[str], near: list[str], *, whole: bool) -> list[list[str]]:
    """Return the tests to run until one fails; an empty list stands for the whole suite."""
    found = [[note] if "::" in note else [], touched, [path for path in near if path not in touched]]
    return [step for step in found if step] + [[]] * whole


def ask(listed: Outcome, options: argparse.Namespace) -> Outcome:
    """Revert a commit and run the command."""
    if listed.note.startswith("("):
        return replace(listed, verdict="aside")
    files = reverted_files(listed.commit)
    if not files:
        return replace(listed, verdict="conflict")
    verdict, detail, start = "missed", "", time.monotonic()
    check_out(files)
    for step in steps(listed.note, touched_tests(listed.commit), near_tests(files), whole=options.whole):
        verdict, detail = judge(*run([*options.command, *step]))
        if verdict != "missed":
            detail = detail or " ".join(step)
            break
    seconds = round(time.monotonic() - start, 1)
    return replace(listed, verdict=verdict, detail=detail, seconds=seconds)


def read(path: Path) -> list[Outcome]:
    """Return the commits of a list, with the notes below them."""
    found = re.findall(r"^(\w+) (.*)(?:\n +(.*))?", path.read_text(encoding="utf-8"), re.MULTILINE)
    return [Outcome(commit, subject, note=note) for commit, subject, note in found]


def ask_about_list(options: argparse.Namespace) -> int:
    """Print what the suite finds for each commit of a list; return the exit status."""
    path, outcomes = options.list.absolute(), []
    with scratch_clone():
        for listed in read(path):
            if listed.commit.startswith(tuple(options.only)):
                outcomes.append(found := ask(listed, options))
                detail = found.detail or found.note or "-"
                took = f"{found.verdict:8} {found.seconds:6.1f} s"
                print(f"{found.commit} {took}  {detail}  {found.subject}", flush=True)
                if options.write:
                    texts = ((found if each.commit == found.commit else each).text() for each in read(path))
                    path.write_text("".join(texts), encoding="utf-8", newline="\n")
        noticing = [found.detail for found in outcomes if "::" in found.detail]
        check_out({})
        verdict, detail = judge(*run([*options.command, *noticing])) if noticing else ("missed", "")
        if verdict != "missed":
            sys.exit(f"The command fails where nothing is reverted: {detail or verdict}")
    count = Counter(outcome.verdict for outcome in outcomes)
    others = "".join(f", {count[name]} {name}" for name in ("error", "conflict", "aside") if count[name])
    print(f"{count['noticed']} of {len(outcomes) - count['conflict'] - count['aside']} noticed{others}")
    return int(count["noticed"] < options.least)


def draw(options: argparse.Namespace) -> int:
    """Print commits that can be reverted, in a random order that new commits do not change."""
    log = git("log", "--no-merges", "--min-parents=1", "--abbrev=12", "--format=%h %s").splitlines()
    fixes = [line for line in log if re.match(r"\w+ fix[:(]", line)]
    fixes.sort(key=lambda line: hashlib.sha256(f"{options.seed} {line}".encode()).digest())
    with scratch_clone():
        reverts = {line: files for line in fixes if (files := reverted_files(line.split()[0]))}
        suited = (line for line, files in reverts.items() if changes_code(files) and can_be_imported(files))
        for line in islice(suited, options.count):
            print(line, flush=True)
    print(f"{len(reverts)} of {len(fixes)} fixes revert without conflict", file=sys.stderr)
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
    asking.add_argument("--write", action="store_true", help="note in the list which tests notice")
    asking.add_argument("--only", nargs="+", metavar="HASH", default=[""], help="ask about these only")
    asking.add_argument("--whole", action="store_true", help="run the command without names of tests at last")
    asking.add_argument("--least", type=int, default=0, help="exit with 1 if fewer commits are noticed")
    options = parser.parse_args(sys.argv[1:split])
    options.command = sys.argv[split + 1 :]
    if options.action == "draw":
        return draw(options)
    if not options.command:
        parser.error("ask needs `-- COMMAND`.")
    if os.sep in options.command[0]:  # it runs in another folder
        options.command[0] = str(Path(options.command[0]).absolute())
    return ask_about_list(options)


if __name__ == "__main__":
    sys.exit(main())
