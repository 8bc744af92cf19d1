"""Search for wrong results of random programs, or make a wrong program small.

python -m tests.random_programs [FAMILY...] --seconds N --seed S
python -m tests.random_programs --shrink FAMILY:SEED
python -m tests.random_programs --show FAMILY:SEED
"""

from __future__ import annotations

import argparse
import sys

from tests.random_programs.families import NAMES, OF_TORCH, family_of
from tests.random_programs.judges import JUDGES
from tests.random_programs.search import Job, search, shrink_named, work

_FAMILIES = f"all that need no torch, or some of {', '.join((*NAMES, *OF_TORCH))}"


def main() -> int:
    """Return 1 if something is wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.random_programs",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=_FAMILIES)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=10**6, help="how many seeds of each family")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="the longest time to search")
    parser.add_argument(
        "--judge", action="append", default=[], choices=sorted(JUDGES), help="instead of the family's"
    )
    parser.add_argument(
        "--shrink", metavar="FAMILY:SEED", help="print the smallest program with the same fault"
    )
    parser.add_argument("--show", metavar="FAMILY:SEED", help="print a program")
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)  # a child of a search
    options = parser.parse_args()
    if unknown := {*options.families} - {*NAMES, *OF_TORCH}:
        parser.error(f"no family is called {', '.join(sorted(unknown))}")
    if options.show:
        name, _, seed = options.show.partition(":")
        sys.stdout.write(family_of(name).write(int(seed)).source)
        return 0
    if options.shrink:
        found = shrink_named(options.shrink, options.judge)
        sys.stdout.write("\n\n".join(found or ["no fault\n"]))
        return int(bool(found))
    default = tuple(name for name in NAMES if family_of(name).judges)
    job = Job(tuple(options.families) or default, options.seed, tuple(options.judge))
    if options.work is not None:
        work(job, options.work, options.count)
        return 0
    report = search(job, options.count, options.seconds, log=sys.stderr)
    return int(report.write(sys.stdout) > 0)


if __name__ == "__main__":
    sys.exit(main())
