"""Let the engine `numpy` say what most cells mean in the default suite: it takes milliseconds.

One case in four runs as machine code, as do all that are marked ``machine_code``; in the full suite, all do.
"""

from zlib import crc32

import pytest

import nnmagic
from tests.suites import FULL

_ONE_IN = 4


@pytest.fixture(autouse=True)
def _engine(request, monkeypatch):
    is_sample = crc32(request.node.nodeid.encode()) % _ONE_IN == 0
    if not FULL and not is_sample and request.node.get_closest_marker("machine_code") is None:
        monkeypatch.setitem(nnmagic.compile.__wrapped__.__kwdefaults__, "engine", "numpy")
