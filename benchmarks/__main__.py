"""Measure the rows in child processes, print the table and write the JSON: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from benchmarks.case import CONTESTANTS, KNOWN, OURS, Row
from benchmarks.peers import all_threads, thread_settings
from benchmarks.report import document, table

#: How long a row may take, in seconds, before its process is ended: torch.compile alone takes minutes for
#: the training step of ResNet-18.
_LIMIT = 900
#: Where ``python -m benchmarks.worker`` finds it.
_ROOT = Path(__file__).parent.parent


def main(arguments: list[str] | None = None) -> int:
    """Runs what the options say; 1 where a result is wrong or a process died."""
    options = _options(arguments)
    from benchmarks.cases import ROWS

    wanted = [row for row in ROWS if _is_wanted(row, options.only)]
    if not wanted:
        print("no row has such a name; there are:", *(row.name for row in ROWS), sep="\n  ", file=sys.stderr)
        return 2
    if options.list:
        print(*(row.name for row in wanted), sep="\n")
        return 0
    peers = tuple(name for name in CONTESTANTS if name in (OURS, "numpy", KNOWN, *options.peers))
    results: dict[tuple[str, int], dict[str, Any]] = {}
    peaks: dict[int, Any] = {}
    for threads in options.threads:
        task = {
            "threads": threads,
            "quick": options.quick,
            "peers": peers,
            "peak": not (options.quick or options.no_peak),
        }
        names = [row.name for row in wanted]
        for message in _measure(task, names):
            if "peak" in message:
                peaks[threads] = message["peak"]
            else:
                results[message["row"]["name"], threads] = message["row"]
    report = document(wanted, results, peaks, options.quick)
    print(table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(table(report) + "\n", encoding="utf-8")
    return int(any(row["wrong"] for row in report["rows"]))


def _is_wanted(row: Row, parts: list[str] | None) -> bool:
    return any(part in row.name for part in parts) if parts else not row.optional


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="PART", help="rows whose name has one of these parts")
    parser.add_argument("--list", action="store_true", help="print the names of the rows")
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=CONTESTANTS[3:],
        default=CONTESTANTS[3:],
        help="who is measured beside NumPy",
    )
    parser.add_argument(
        "--threads", nargs="+", type=int, default=sorted({1, all_threads()}), help="one and all"
    )
    parser.add_argument("--quick", action="store_true", help="few short rounds: checks that it works")
    parser.add_argument("--no-peak", action="store_true", help="do not measure the machine's peak")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write everything measured")
    parser.add_argument("--markdown", type=Path, metavar="PATH", help="write the table")
    return parser.parse_args(arguments)


def _measure(task: dict[str, Any], names: list[str]) -> list[dict[str, Any]]:
    """What the workers say. Where one dies, its row is wrong, and another goes on with the next."""
    messages: list[dict[str, Any]] = []
    left = list(names)
    while left or task["peak"]:
        begun, status = _worker({**task, "rows": left}, messages)
        done = {said["row"]["name"] for said in messages if "row" in said}
        left = [name for name in left if name not in done]
        task = {**task, "peak": task["peak"] and not any("peak" in said for said in messages)}
        if status and begun not in left:
            raise SystemExit(f"the worker ended with {status}")
        if status:
            left.remove(begun)
            messages.append({"row": _report_death(begun, task["threads"], status)})
    return messages


def _worker(task: dict[str, Any], messages: list[dict[str, Any]]) -> tuple[str, int]:
    """Runs one worker and adds what it says; gives what it began last, and its exit status."""
    begun = ""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker", json.dumps(task)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env={**os.environ, **thread_settings(task["threads"])},
    ) as process:
        watch = _watch(process)
        assert process.stdout is not None
        for line in process.stdout:
            said = json.loads(line)
            watch.cancel()
            watch = _watch(process)
            if "begun" in said:
                begun = said["begun"]
                print(f"{task['threads']} threads: {begun}", file=sys.stderr)
            else:
                messages.append(said)
        watch.cancel()
        return begun, process.wait()


def _watch(process: subprocess.Popen[str]) -> threading.Timer:
    """Ends a process that does not say anything for too long."""
    watch = threading.Timer(_LIMIT, process.kill)
    watch.daemon = True
    watch.start()
    return watch


def _report_death(name: str, threads: int, status: int) -> dict[str, Any]:
    why = f"the process ended with {status}"
    if status == -signal.SIGKILL:
        why += f": killed by the system, or because it took over {_LIMIT} s"
    return {
        "name": name,
        "family": "",
        "threads": threads,
        "timings": {},
        "absent": {},
        "wrong": {OURS: why},
    }


if __name__ == "__main__":
    sys.exit(main())
