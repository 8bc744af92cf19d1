"""Compute ratios of medians, and decide whether a row meets its goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.case import BEST, KNOWN, OURS, Case, Goal, Growth, OfPeak, Overhead, Ratio, Row, Within


@dataclass(frozen=True, slots=True)
class Verdict:
    """goal: as the table says it. reached: the figure, or None where what it compares with is missing."""

    goal: str
    reached: float | None
    met: bool | None


Results = Mapping[tuple[str, int], Mapping[str, Any]]


def goals_of(row: Row) -> tuple[Goal, ...]:
    """The row's goals, and that of every row that has any: to be no slower than NumPy."""
    given = row.goals
    numpy = any(isinstance(goal, Ratio) and goal.peer == "numpy" for goal in given)
    implied = (Ratio("numpy", 1.0),) if given and not numpy and isinstance(row, Case) else ()
    return (*given, *implied)


def ratios(result: Mapping[str, Any]) -> dict[str, float]:
    """Our speed over each peer's, by the medians: 2.0 where we take half the time."""
    timings = result["timings"]
    if OURS not in timings:
        return {}
    ours = timings[OURS]["median"]
    return {name: timing["median"] / ours for name, timing in timings.items() if name != OURS}


def gflops(row: Row, result: Mapping[str, Any]) -> float | None:
    """Billions of multiplications and additions a second, ours."""
    if not isinstance(row, Case) or not row.flops or OURS not in result["timings"]:
        return None
    return float(row.flops / result["timings"][OURS]["median"] / 1e9)


def verdict(
    goal: Goal, row: Row, result: Mapping[str, Any], results: Results, peak: Mapping[str, Any] | None
) -> Verdict:
    """Whether a row meets a goal; results: of all rows by name and threads."""
    timings = result["timings"]
    ours = timings[OURS]["median"] if OURS in timings else None
    match goal:
        case Ratio(peer=peer, at_least=least):
            by_peer = ratios(result)
            peers = [ratio for name, ratio in by_peer.items() if name != KNOWN]
            reached = min(peers, default=None) if peer == BEST else by_peer.get(peer)
            return _at_least(f"{least:g}x {peer}", reached, least)
        case OfPeak(at_least=least):
            rate = gflops(row, result)
            reached = rate * 1e9 / peak["sgemm"]["flops"] if rate is not None and peak else None
            return _at_least(f"{least:.0%} of peak", reached, least)
        case Within(seconds=limit):
            return Verdict(f"<= {limit * 1e3:g} ms", ours, None if ours is None else ours <= limit)
        case Growth(of=name, at_most=most):
            base = results.get((name, result["threads"]), {"timings": {}})["timings"].get(OURS)
            reached = ours / base["median"] if ours is not None and base else None
            return Verdict(f"<= {most:g}x {name}", reached, None if reached is None else reached <= most)

        case Overhead(over=name, seconds=limit):
            other = timings.get(name)
            more = ours - other["median"] if ours is not None and other else None
            return Verdict(
                f"<= {limit * 1e6:g} us over {name}", more, None if more is None else more <= limit
            )


def _at_least(goal: str, reached: float | None, least: float) -> Verdict:
    return Verdict(goal, reached, None if reached is None else reached >= least)
