"""Write the table and the JSON from the results of the workers."""

from __future__ import annotations

import importlib.metadata
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.case import BEST, CONTESTANTS, KNOWN, OURS, Case, Row
from benchmarks.judge import Results, Verdict, gflops, goals_of, ratios, verdict
from benchmarks.notes import note_of

FORMAT = 1
_PACKAGES = (
    "nnmagic",
    "apache-tvm",
    "apache-tvm-ffi",
    "numpy",
    "onnxruntime",
    "onnx",
    "torch",
    "jax",
    "jaxlib",
    "numba",
)


def document(rows: Sequence[Row], results: Results, peaks: Mapping[int, Any], quick: bool) -> dict[str, Any]:
    """All that was measured, ready for json.dump; without the date, so that two runs have the same form.

    The rows of the vocabulary come last, the worst first.
    """
    threads = sorted({count for _, count in results})
    shown = [
        _row(row, results[row.name, count], results, peaks.get(count))
        for row in rows
        for count in threads
        if (row.name, count) in results
    ]
    return {
        "format": FORMAT,
        "quick": quick,
        "machine": machine(),
        "versions": versions(),
        "peak": {str(count): peaks[count] for count in sorted(peaks)},
        "rows": sorted(shown, key=_place),
    }


def _place(row: Mapping[str, Any]) -> tuple[bool, float]:
    in_vocabulary = row["family"] == "vocabulary"
    return in_vocabulary, min(row["ratios"].values(), default=0.0) if in_vocabulary else 0.0


def _row(
    row: Row, result: Mapping[str, Any], results: Results, peak: Mapping[str, Any] | None
) -> dict[str, Any]:
    verdicts = [verdict(goal, row, result, results, peak) for goal in goals_of(row)]
    missed = any(each.met is False for each in verdicts)
    return {
        **result,
        "ratios": ratios(result),
        "gflops": gflops(row, result),
        "of_peak": _of_peak(row, result, peak),
        "goals": [asdict(each) for each in verdicts],
        "note": note_of(row.name, int(result["threads"])) if missed else None,
    }


def _of_peak(row: Row, result: Mapping[str, Any], peak: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The fraction of the machine's peak that bounds this row: of the best product, or of a copy."""
    if not peak or not isinstance(row, Case) or OURS not in result["timings"]:
        return None
    if row.flops:
        kind = "dgemm" if row.name.endswith("f64") else "sgemm"
        return {
            "of": kind,
            "fraction": row.flops / result["timings"][OURS]["median"] / peak[kind]["flops"],
        }
    if row.nbytes:
        return {
            "of": "copy",
            "fraction": row.nbytes / result["timings"][OURS]["median"] / peak["copy_in_cache"],
        }
    return None


def machine() -> dict[str, Any]:
    """The processor and what runs on it."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text(errors="replace").splitlines() if listed.exists() else []
    known = dict(line.split(":", 1) for line in lines if ":" in line)
    fields = {key.strip(): value.strip() for key, value in known.items()}
    flags = fields.get("flags", "").split()
    return {
        "cpu": fields.get("model name", platform.processor()),
        "processors": sum(line.startswith("processor") for line in lines),
        "vectors": [name for name in ("avx2", "avx512f", "avx512_bf16") if name in flags],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str | None]:
    """What is installed; None where it is not."""
    return {name: _version(name) for name in _PACKAGES}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def table(report: Mapping[str, Any]) -> str:
    """The rows as an aligned Markdown table, each peer's column our speed over its; then notes."""
    shown = [name for name in CONTESTANTS[1:] if any(_is_in(name, row) for row in report["rows"])]
    head = ["case", "threads", OURS, "spread", *shown, "rate", "goals"]
    lines = [head, *([*_cells(row, shown)] for row in report["rows"])]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]

    def draw(line: Sequence[str]) -> str:
        cells = [
            text.ljust(width) if column in (0, len(head) - 1) else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        return f"| {' | '.join(cells)} |"

    rule = [
        "-" * width if column in (0, len(head) - 1) else "-" * (width - 1) + ":"
        for column, width in enumerate(widths)
    ]
    body = [draw(line) for line in lines]
    return "\n".join([*_head(report), body[0], f"| {' | '.join(rule)} |", *body[1:], "", *_summary(report)])


def _head(report: Mapping[str, Any]) -> list[str]:
    machine = report["machine"]
    vectors = " ".join(machine["vectors"]) or "no vectors known"
    lines = [f"{machine['cpu']}, {machine['processors']} processors, {vectors}; Python {machine['python']}"]
    lines.append(", ".join(f"{name} {version or 'absent'}" for name, version in report["versions"].items()))
    for threads, peak in report["peak"].items():
        best, double = peak["sgemm"], peak["dgemm"]
        lines.append(
            f"peak with {threads} thread{'s' * (threads != '1')}: sgemm {best['flops'] / 1e9:.0f} GFLOP/s "
            f"({best['by']}), dgemm {double['flops'] / 1e9:.0f} ({double['by']}), copies of 4 MB "
            f"{peak['copy_in_cache'] / 1e9:.0f} GB/s, of 256 MB {peak['copy_in_memory'] / 1e9:.0f} GB/s"
        )
    if report["quick"]:
        lines.append("quick: the figures mean nothing, only that everything works")
    return [*lines, ""]


def _is_in(name: str, row: Mapping[str, Any]) -> bool:
    return name in row["timings"] or name in row["wrong"]


def _cells(row: Mapping[str, Any], shown: Sequence[str]) -> list[str]:
    ours = row["timings"].get(OURS)
    time = _quantity(row, ours["median"]) if ours else _why(row, OURS)
    spread = f"{(ours['high'] - ours['low']) / 2 / ours['median']:.0%}" if ours else "-"
    return [
        row["name"],
        str(row["threads"]),
        time,
        spread,
        *(f"{row['ratios'][name]:.2f}x" if name in row["ratios"] else _why(row, name) for name in shown),
        _rate(row),
        _goals(row),
    ]


def _why(row: Mapping[str, Any], name: str) -> str:
    if name in row["wrong"]:
        return "WRONG"
    if name in row["timings"]:
        return _quantity(row, row["timings"][name]["median"])
    return "-"


def _quantity(row: Mapping[str, Any], value: float) -> str:
    return f"{value / 1e6:.0f} MB" if row.get("unit") == "bytes" else duration(value)


def _rate(row: Mapping[str, Any]) -> str:
    part = row["of_peak"]
    if part is None:
        return f"{row['gflops']:.0f} GF/s" if row["gflops"] else "-"
    fraction = f"{part['fraction']:.0%} {part['of']}"
    return f"{row['gflops']:.0f} GF/s, {fraction}" if row["gflops"] else fraction


def _goals(row: Mapping[str, Any]) -> str:
    verdicts = [Verdict(**each) for each in row["goals"]]
    if not verdicts:
        return "none"
    missed = [each for each in verdicts if each.met is False]
    unknown = [each.goal for each in verdicts if each.met is None]
    if missed:
        return "; ".join(f"MISSED {each.goal}: {_format_reached(each)}" for each in missed)
    return f"met but for {', '.join(unknown)} (not measured)" if unknown else "met"


def _format_reached(verdict: Verdict) -> str:
    if verdict.reached is None:
        return "not measured"
    if verdict.goal.endswith(("ms", KNOWN)) and verdict.goal.startswith("<="):
        return duration(verdict.reached)
    return f"{verdict.reached:.0%}" if verdict.goal.endswith("peak") else f"{verdict.reached:.2f}x"


def duration(seconds: float) -> str:
    """A time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _summary(report: Mapping[str, Any]) -> list[str]:
    """How many rows meet their goals, what is wrong, and what holds back those that miss one."""
    judged = [row for row in report["rows"] if row["goals"]]
    missed = [row for row in judged if any(goal["met"] is False for goal in row["goals"])]
    lines = [f"{len(judged) - len(missed)} of {len(judged)} rows with goals meet all that were measured."]
    lines += _means(report["rows"])
    for row in report["rows"]:
        lines += [
            f"WRONG: {name}, {row['name']} ({row['threads']}): {why}" for name, why in row["wrong"].items()
        ]
        failed = {name: why for name, why in row["absent"].items() if why.startswith("failed")}
        lines += [f"{name}, {row['name']} ({row['threads']}) {why}" for name, why in failed.items()]
    notes: dict[str, list[str]] = {}
    for row in missed:
        if row["note"]:
            notes.setdefault(row["note"], []).append(f"{row['name']} ({row['threads']})")
    lines += [f"- {', '.join(names)}: {note}" for note, names in notes.items()]
    return lines


_BEST_OF_SEVERAL = "best of several peers"


def _means(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each family of rows: the geometric means of our speed over each peer's, and over the best one's.

    The latter as the goals have it, over the only one where there is one, and of the rows with several.
    """
    groups: dict[tuple[str, int], list[Mapping[str, float]]] = {}
    for row in rows:
        found = {name: ratio for name, ratio in row["ratios"].items() if name != KNOWN}
        if found:
            best = {BEST: min(found.values())}
            best |= {_BEST_OF_SEVERAL: best[BEST]} if len(found) > 1 else {}
            groups.setdefault((row["family"], row["threads"]), []).append({**found, **best})
    lines = []
    for (family, threads), members in groups.items():
        means = []
        for name in (*CONTESTANTS, BEST, _BEST_OF_SEVERAL):
            values = [each[name] for each in members if name in each]
            if len(values) > 1:
                means.append(f"{statistics.geometric_mean(values):.2f}x {name} ({len(values)} rows)")
        if means:
            threaded = "thread" if threads == 1 else "threads"
            lines.append(f"geometric means of {family}, {threads} {threaded}: {', '.join(means)}")
    return lines
