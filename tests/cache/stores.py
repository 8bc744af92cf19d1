"""What the tests of both ways to keep a cache on disk share."""

from __future__ import annotations

import os
import threading
import warnings

from nnmagic.cache import Content, MissingEntry, Store

CONTENT = Content({"made of": {"x": "1"}}, {"code.o": b"machine code", "constants": bytes(range(256))})
KEY, OTHER = "a" * 64, "b" * 64


def make_content(size: int) -> Content:
    return Content({}, {"code.o": os.urandom(size)})


def use_in_threads(cache: Store) -> list[object]:
    """Read, write and drop entries in four threads; return what was wrong. More is put than may be kept."""
    contents = {f"{index:064x}": make_content(10_000) for index in range(9)}
    wrong: list[object] = []

    def work(seed: int) -> None:
        try:
            for turn in range(60):
                key = f"{(seed + turn * 5) % 9:064x}"
                result = cache.get(key)
                if isinstance(result, MissingEntry):
                    cache.put(key, contents[key], replace=turn % 7 == 0)
                elif result != contents[key]:
                    wrong.append(key)
        except BaseException as error:  # noqa: BLE001 - it is returned
            wrong.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
    return [*wrong, *(thread for thread in threads if thread.is_alive())]
