"""Judge random cells: ``python -m tests.tinynn.random_vocabulary FIRST COUNT [--seconds SECONDS]``."""

from __future__ import annotations

import argparse
import sys

from tests.tinynn.random_vocabulary.search import search, work

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.tinynn.random_vocabulary", description=__doc__)
    parser.add_argument("first", type=int, help="the first seed")
    parser.add_argument("count", type=int, help="how many seeds")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="the longest time to search")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)  # a child of a search
    options = parser.parse_args()
    if options.work:
        work(options.first, options.count)
    else:
        report = search(options.first, options.count, options.seconds, log=sys.stderr)
        sys.exit(1 if report.report(sys.stdout) else 0)
