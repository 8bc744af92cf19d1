"""The cache in memory: when it hits, when it must not, what it says, and what it keeps.

They judge tinynn/namespace/compiled_values, too.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import nnmagic
from nnmagic.cache import Entry, MemoryCache, digest
from nnmagic.engine import relax
from nnmagic.functions.caching.fingerprint import fingerprint
from nnmagic.functions.cells import type_cell as compiling
from nnmagic.functions.cells.compile_cell import MEMORY
from nnmagic.relay import Constant
from nnmagic.tinynn import MISSING
from nnmagic.tinynn.namespace.capture import capture, snapshot
from nnmagic.tinynn.values.values import Computed, DictOf, Known, TupleOf

SOURCE = "def scaled(x: Tensor[(2,), f32]):\n    return x * w0 + bias\n"
ONES = np.ones(2, "float32")


pytestmark = pytest.mark.usefixtures("memory_only")


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    MEMORY.clear()


def namespace(**changes: object) -> dict[str, object]:
    return {"w0": np.array([1, 2], "float32"), "bias": 0.5, **changes}


def test_the_second_time_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    first = nnmagic.compile(SOURCE, namespace=namespace())
    assert (first.cache_info.hit, first.cache_info.why) == (None, "first time")
    monkeypatch.delattr(relax, "build")
    monkeypatch.delattr(compiling, "compile_source")
    second = nnmagic.compile(SOURCE, namespace=namespace())  # equal values, other objects
    assert (second.cache_info.hit, second.cache_info.why) == ("memory", "found in memory")
    assert second.cache_info.key == first.cache_info.key
    assert second.cache_info.seconds < first.cache_info.seconds
    np.testing.assert_array_equal(second(ONES), first(ONES))
    assert second.relay_text == first.relay_text
    assert first.cache_info.hit is None, "what was given before does not change"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"w0": np.array([1, 3], "float32")}, "captured array `w0` changed"),
        ({"w0": np.array([[1, 2]], "float32")}, "captured array `w0` changed"),
        ({"w0": np.float32(1)}, "captured array `w0` changed"),
        ({"bias": 0.25}, "captured number `bias` changed"),
        ({"bias": np.float32(0.5)}, "captured number `bias` changed"),
        ({"bias": -0.5, "w0": np.array([2, 1], "float32")}, "`w0`.*`bias` changed"),
        ({"Tensor": nnmagic.Tensor}, "captured name `Tensor` changed"),
    ],
)
def test_a_captured_value_that_changed_is_compiled_anew(changes: dict[str, object], why: str) -> None:
    nnmagic.compile(SOURCE, namespace=namespace())
    again = nnmagic.compile(SOURCE, namespace=namespace(**changes))
    assert again.cache_info.hit is None
    assert re.search(why, again.cache_info.why), again.cache_info.why
    now = namespace(**changes)
    np.testing.assert_allclose(
        again(ONES).reshape(-1), (ONES * now["w0"] + now["bias"]).reshape(-1), rtol=1e-6
    )


HELD = "def f(x: Tensor[(2,), f32]):\n    return x * params['scale'] + settings.inner[0]\n"


@pytest.mark.parametrize(
    ("params", "settings", "hit", "why"),
    [
        ({"scale": 2.0}, SimpleNamespace(inner=[ONES]), "memory", "found in memory"),
        ({"scale": 2.0}, SimpleNamespace(inner=(ONES.copy(),), other=1), "memory", "found in memory"),
        ({"scale": 3.0}, SimpleNamespace(inner=[ONES]), None, "captured dict `params` changed"),
        ({"scale": 2.0, "more": 1}, SimpleNamespace(inner=[ONES]), None, "captured dict `params` changed"),
        ({"scale": 2.0}, SimpleNamespace(inner=[ONES * 2]), None, "captured tuple `settings.inner` changed"),
        ({"scale": 2.0}, SimpleNamespace(inner=[2]), None, "captured tuple `settings.inner` changed"),
    ],
)
def test_what_is_taken_of_dictionaries_and_objects_is_part_of_the_key(
    params: dict[str, float], settings: SimpleNamespace, hit: str | None, why: str
) -> None:
    first = {"params": {"scale": 2.0}, "settings": SimpleNamespace(inner=[ONES])}
    nnmagic.compile(HELD, namespace=first)
    again = nnmagic.compile(HELD, namespace={"params": params, "settings": settings})
    assert again.cache_info.hit == hit
    assert again.cache_info.why == why
    np.testing.assert_array_equal(again(ONES), ONES * params["scale"] + settings.inner[0])


def test_an_array_changed_in_place_is_seen_and_both_versions_are_kept() -> None:
    values = namespace()
    old = nnmagic.compile(SOURCE, namespace=values)
    values["w0"][0] = 7
    new = nnmagic.compile(SOURCE, namespace=values)
    assert new.cache_info.why == "captured array `w0` changed"
    np.testing.assert_array_equal(old(ONES), [1.5, 2.5])
    np.testing.assert_array_equal(new(ONES), [7.5, 2.5])
    values["w0"][0] = 1
    assert nnmagic.compile(SOURCE, namespace=values).cache_info.hit == "memory"


def test_a_compiled_function_is_captured_by_its_definition() -> None:
    caller = "def caller(x: Tensor[(2,), f32]):\n    return callee(x)\n"
    one = nnmagic.compile("def callee(x: Tensor[(2,), f32]):\n    return x + 1\n")
    two = nnmagic.compile("def callee(x: Tensor[(2,), f32]):\n    return x + 2\n")
    np.testing.assert_array_equal(nnmagic.compile(caller, namespace={"callee": one})(ONES), [2, 2])
    changed = nnmagic.compile(caller, namespace={"callee": two})
    assert changed.cache_info.why == "captured function `callee` changed"
    np.testing.assert_array_equal(changed(ONES), [3, 3])
    same = nnmagic.compile("def callee(x: Tensor[(2,), f32]):\n    return x + 1\n")
    assert nnmagic.compile(caller, namespace={"callee": same}).cache_info.hit == "memory"


def test_what_the_cache_remembers_is_what_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that another thread changes while the cell is compiled; a later hit must not mix the two."""
    names: dict[str, object] = {"w0": np.array([1, 2], "float32"), "bias": [[1, 2]]}
    source = "def f(x: Tensor[(2,), f32]):\n    return (x * w0).reshape(bias[0])\n"

    def compile_while_it_changes(*args: object, **options: object) -> object:
        program = compile_source(*args, **options)
        names["w0"][0] = 7
        names["bias"][0].reverse()
        return program

    compile_source = compiling.compile_source
    monkeypatch.setattr(compiling, "compile_source", compile_while_it_changes)
    np.testing.assert_array_equal(nnmagic.compile(source, namespace=names)(ONES), [[1, 2]])
    monkeypatch.undo()
    again = nnmagic.compile(source, namespace=names)
    assert again.cache_info.hit is None
    np.testing.assert_array_equal(again(ONES), [[7], [2]])
    before = {"w0": np.array([1, 2], "float32"), "bias": [[1, 2]]}
    first = nnmagic.compile(source, namespace=before)
    assert first.cache_info.hit == "memory"
    np.testing.assert_array_equal(first(ONES), [[1, 2]])


def test_a_value_that_no_cell_takes_is_no_hit() -> None:
    nnmagic.compile(SOURCE, namespace=namespace())
    masked = np.ma.masked_array([1, 2], [False, True], dtype="float32")
    with pytest.raises(nnmagic.TinyNNError, match="a masked array"):
        nnmagic.compile(SOURCE, namespace=namespace(w0=masked))
    endless: list[object] = []
    endless += [endless] * 10
    with pytest.raises(nnmagic.TinyNNError, match="a list nested too deeply"):
        nnmagic.compile(SOURCE, namespace=namespace(w0=endless))


def test_a_scalar_is_no_array_of_rank_0() -> None:
    """The one is a Python number, which takes the tensor's dtype, the other a tensor of its own dtype."""
    half = "def half(x: Tensor[(2,), f32]):\n    return x * k\n"
    for _ in range(2):  # the second time, what may be found was put there by the other
        assert nnmagic.compile(half, namespace={"k": np.float64(0.5)})(ONES).dtype == np.float32
        with pytest.warns(nnmagic.TinyNNWarning, match="`k` is f64"):
            wide = nnmagic.compile(half, namespace={"k": np.array(0.5)})
        assert wide(ONES).dtype == np.float64


def test_options_and_edits_are_told() -> None:
    nnmagic.compile(SOURCE, namespace=namespace())
    level = nnmagic.compile(SOURCE, namespace=namespace(), opt_level=0)
    assert level.cache_info.why == "option opt_level changed"
    edited = nnmagic.compile(SOURCE.replace("+", "-"), namespace=namespace())
    assert edited.cache_info.why == "source changed"
    other = nnmagic.compile("def other(x: Tensor[(2,), f32]):\n    return x\n")
    assert other.cache_info.why == "first time"


def test_the_cache_may_be_left_alone() -> None:
    for _ in range(2):
        function = nnmagic.compile(SOURCE, namespace=namespace(), cache=False)
        assert (function.cache_info.hit, function.cache_info.why) == (None, "the cache is off")
    assert MEMORY.statistics.entries == 0
    assert nnmagic.compile(SOURCE, namespace=namespace()).cache_info.why == "first time"


def test_what_fails_is_not_kept() -> None:
    for _ in range(2):
        with pytest.raises(nnmagic.TinyNNError, match="unknown name `w0`"):
            nnmagic.compile(SOURCE, namespace={"bias": 1})
    assert MEMORY.statistics.entries == 0


@pytest.mark.full
def test_keys_are_the_same_in_every_process() -> None:
    code = textwrap.dedent(
        f"""
        import numpy as np, nnmagic
        names = {{"w0": np.array([1, 2], "float32"), "bias": 0.5}}
        print(nnmagic.compile({SOURCE!r}, namespace=names).cache_info.key)
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == nnmagic.compile(SOURCE, namespace=namespace()).cache_info.key


class Unknown:
    def __getattr__(self, name: str) -> object:
        raise AssertionError("code of the notebook ran")


DIFFERENT = [
    MISSING, None, True, False, 1, 0, 1.0, -0.0, 0.0, "1", "", (), (1,), (1.0,), ((1,),), (1, 2), (12,),
    np.float32(1), np.float64(1), np.int32(1), np.array(1), np.array([1]), np.array([1 << 56]),
    np.ma.masked_array([1, 2], [0, 0]), np.ma.masked_array([1, 2], [0, 1]), np.array([1, 2]),
    np.array([1.0]), np.array([[1]]), np.array([], "f4"),
    np.zeros((0, 2), "f4"), np.array([True]), np.dtype("f4"),
    nnmagic.f32, nnmagic.f64, nnmagic.Tensor, nnmagic.Tensor[(1,), nnmagic.f32], np, sys, ..., int,
    "a\0b", ("a", "b"),
    float("nan"), Unknown(), Unknown(), np.array([object()]),
]  # fmt: skip


def test_fingerprints_of_different_values_differ() -> None:
    fingerprints = [fingerprint(value) for value in DIFFERENT]
    assert len(set(fingerprints)) == len(fingerprints)


def meaning(value: object) -> object:
    """What a value is inside a cell, as something that can be compared."""
    match value:
        case Computed(expr=Constant(data=data)):
            return ("constant", data.dtype.name, data.shape, data.tobytes())
        case Known(value=known):
            return ("known", type(known).__name__, repr(known))
        case TupleOf(items=items):
            return ("tuple", tuple(map(meaning, items)))
        case DictOf(items=entries):
            return ("dict", tuple((key, meaning(each)) for key, each in entries.items()))
    return ("name", repr(value))


def test_values_of_one_fingerprint_mean_the_same() -> None:
    """The promise that the cache rests on, whatever a value of the notebook comes to mean in a cell."""
    plain = [0, 1, True, False, 0.0, -0.0, 1.0, 0.5, float("nan"), float("inf"), "1", None, ..., (), (1, 2)]
    scalars = [np.dtype(name).type(1) for name in ("f2", "f4", "f8", "i1", "i4", "i8", "u1", "u8", "?")]
    arrays = [np.asarray(scalar) for scalar in scalars] + [np.asarray(scalar)[None] for scalar in scalars]
    swapped = [array.astype(array.dtype.newbyteorder()) for array in arrays]
    dtypes = [nnmagic.f32, np.float32, np.dtype("f4"), np.dtype(">f4"), nnmagic.Tensor, tuple]
    single = [*plain, *scalars, *arrays, *swapped, *dtypes]
    held = [each for each in single if not getattr(each, "shape", ())]
    values = [*single, *([each] for each in held), *((each,) for each in held)]
    values += [{key: each} for key in ("a", 1, "1") for each in single]
    meanings: dict[str, object] = {}
    for value in values:
        expected = meaning(capture(snapshot(value)))
        assert meanings.setdefault(fingerprint(value), expected) == expected, value
        assert fingerprint(snapshot(value)) == fingerprint(value), "what was compiled is found again"
    assert len(meanings) < len(values), "some do share one"


def test_fingerprints_of_equal_values_are_equal() -> None:
    whole = np.arange(12, dtype="float32").reshape(3, 4)
    assert fingerprint(whole.T) == fingerprint(np.ascontiguousarray(whole.T))
    assert fingerprint(whole[::2]) == fingerprint(whole[::2].copy())
    assert fingerprint(whole.astype(">f4")) == fingerprint(whole), "a constant has the machine's byte order"
    assert fingerprint((1, ("a", whole))) == fingerprint((1, ("a", whole.copy())))
    assert fingerprint([1, [2]]) == fingerprint((1, (2,))), "a cell makes no difference between them"
    thing = Unknown()
    assert fingerprint(thing) != fingerprint(thing), "an unknown value never counts as unchanged"


def entry(name: str, source: str, nbytes: int = 0, **captured: str) -> Entry[str]:
    return Entry((name,), {"source": source}, captured, f"value of {source} {captured}", nbytes)


def test_the_cache_drops_what_was_used_longest_ago() -> None:
    cache: MemoryCache[str] = MemoryCache(max_entries=2, max_bytes=100)
    for source in "ab":
        cache.put(entry(source, source))
    assert cache.find({"source": "a"}, str) is not None
    cache.put(entry("c", "c"))
    assert [kept.parts["source"] for kept in cache.entries()] == ["c", "a"]
    assert cache.find({"source": "b"}, str) is None
    assert cache.statistics.evictions == 1
    cache.put(entry("d", "d", nbytes=1000))  # larger than the bound: kept, alone
    assert [kept.parts["source"] for kept in cache.entries()] == ["d"]


def test_the_cache_looks_at_names_only_as_far_as_it_must() -> None:
    cache: MemoryCache[str] = MemoryCache(max_entries=9, max_bytes=100)
    cache.put(entry("f", "s", w="1", z="2"))
    cache.put(entry("f", "s", w="3", z="2"))
    asked = []

    def now(name: str) -> str:
        asked.append(name)
        return {"w": "1", "z": "2"}[name]

    remembered = cache.find({"source": "s"}, now)
    assert remembered is not None
    assert remembered.captured["w"] == "1"
    assert asked == ["w", "z"]


def test_digests_do_not_run_into_one_another() -> None:
    assert digest({"ab": "c"}) != digest({"a": "bc"})
    assert digest({"a": "x", "b": "y"}) == digest({"b": "y", "a": "x"})
    assert digest({"a": "\udc80"})


def test_any_thread_may_use_the_cache() -> None:
    cache: MemoryCache[str] = MemoryCache(max_entries=5, max_bytes=1000)
    failures = []

    def work(seed: int) -> None:
        for i in range(300):
            source = str((seed * 7 + i) % 11)
            cache.put(entry(source, source, nbytes=1))
            remembered = cache.find({"source": source}, str)
            if remembered is not None and remembered.parts["source"] != source:
                failures.append(source)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert cache.statistics.entries <= 5
