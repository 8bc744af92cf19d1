"""Processes compile on one cache while others are killed and files are damaged: never a wrong result.

``make stress`` runs it in full: 8 processes that compile 200 functions each, in threads and in forked
children too, while the cache is cleared, 40 processes are killed and files are damaged.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

FULL = os.environ.get("NNMAGIC_STRESS") == "1"
PROCESSES, COMPILES, KILLS, LIMIT = (8, 200, 40, 300) if FULL else (3, 25, 4, 400)


class Worker:
    """A process, and how many functions it has still to compile."""

    def __init__(self, directory: Path, number: int) -> None:
        self.output = directory / f"{number}.out"
        self.errors = directory / f"{number}.err"
        self.seed = number
        self.starts = 0
        self.groups: list[int] = []
        self.start()

    def lines(self) -> list[str]:
        return self.output.read_text().splitlines() if self.output.exists() else []

    def start(self) -> None:
        self.starts += 1
        left = COMPILES - sum(line.startswith("right") for line in self.lines())
        command = [
            sys.executable,
            "-m",
            "tests.cache.stress_process",
            str(self.seed + 100 * self.starts),
            str(left),
        ]
        with self.output.open("a") as out, self.errors.open("a") as errors:
            self.process = subprocess.Popen(command, stdout=out, stderr=errors, start_new_session=True)
        self.groups.append(self.process.pid)

    def is_gone(self) -> bool:
        """Whether none of its processes runs, nor one that they forked."""
        return not any(map(_signal, self.groups))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for group in self.groups:
            _signal(group, signal.SIGKILL)


def _signal(group: int, number: int = 0) -> bool:
    """Whether there is somebody in a group of processes to take a signal."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def damage(cache: Path, rng: random.Random, *, in_place: bool) -> bool:
    """Changes, cuts, empties, deletes or replaces a file or a folder in the cache; whether one was there.

    ``in_place``: only what Windows permits while others have the file open.
    """
    try:
        path = rng.choice([path for path in cache.rglob("*") if rng.random() < 0.5])
        if path.is_dir():
            shutil.rmtree(path) if rng.random() < 0.5 else path.rename(cache / f"{rng.randrange(4):064x}")
            return True
        data = bytearray(path.read_bytes())
        match rng.choice((0, 3)) if in_place else rng.randrange(4):
            case 0:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                path.write_bytes(data)
            case 1:
                path.write_bytes(data[: rng.randrange(len(data))])
            case 2:
                path.unlink()
            case 3:
                path.write_bytes(os.urandom(len(data)))
    except (OSError, ValueError, IndexError):
        return False  # nothing is there yet, or somebody else was quicker
    return True


@pytest.mark.full
@pytest.mark.timeout(LIMIT + 60)
@pytest.mark.parametrize("system", ["posix", "windows"])
def test_nothing_wrong_comes_of_kills_and_damage(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    if system == "windows":
        monkeypatch.setenv("NNMAGIC_TEST_WINDOWS", "1")
    monkeypatch.setenv("NNMAGIC_CACHE_DIR", str(cache))
    monkeypatch.setenv("NNMAGIC_CACHE_MB", "1")
    monkeypatch.setenv("NNMAGIC_NUM_THREADS", "1")
    rng = random.Random(0)
    workers = [Worker(tmp_path, number) for number in range(PROCESSES)]
    kills, damages = 0, 0
    begin = time.monotonic()
    try:
        while running := [each for each in workers if each.process.poll() is None]:
            if time.monotonic() - begin > LIMIT:
                raise TimeoutError("it hangs")
            time.sleep(rng.uniform(0.1, 0.4))
            damages += damage(cache, rng, in_place=system == "windows")
            if kills < KILLS and rng.random() < 0.15:
                kills += 1
                killed = rng.choice(running)
                killed.process.kill()
                if killed.process.wait() != 0:
                    killed.start()
        while not all(worker.is_gone() for worker in workers):
            if time.monotonic() - begin > LIMIT:
                raise TimeoutError("a forked child hangs")
            time.sleep(0.2)
    finally:
        for worker in workers:
            worker.end()
    counts: Counter[str] = Counter()
    warned = 0
    for worker in workers:
        assert worker.process.returncode == 0, [*worker.lines()[-1:], worker.errors.read_text()[-2000:]]
        lines = worker.lines()
        assert len(lines) == COMPILES
        assert all(line.startswith("right") for line in lines), lines
        counts.update(line.split()[1] for line in lines)
        warned += sum(int(line.split()[2]) for line in lines)
    seconds = time.monotonic() - begin
    told = f"{counts}, warnings: {warned}, kills: {kills}, damages: {damages}, {seconds:.0f} s"
    sys.stdout.write(f"{told}\n")
    assert counts["disk"] > 0
    assert counts["None"] > 0
    assert damages > 0
    assert warned > 0 or not FULL  # a short run may read none of what was damaged
