"""Every operator with sizes it was not thought of: 0, 1, one more, known only at the call, fitting or not.

What comes out is what the reference gives, or, where that does not judge, the same call of known sizes; or
a refusal that names operator or argument.
Arguments lie at the end of their page of memory: who reads behind one is ended by the machine.
"""

import ctypes
import ctypes.util
import mmap
import sys
from functools import cache, partial

import numpy as np
import pytest

from nnmagic.diagnostics import CompileError
from nnmagic.engine.arguments import Parameter, convert_argument
from nnmagic.engine.numpy import Interpreter
from nnmagic.engine.relax import build
from nnmagic.engine.relax.legalize import RULES
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from nnmagic.relay.reference import RULES as REFERENCE
from nnmagic.relay.types import AnyDim, TensorType
from tests.child_process import run_python
from tests.conftest import leave_unoptimized
from tests.engine.calls import arrays, of_the_operators
from tests.suites import sample

#: Operators that TVM itself refuses where sizes are known only at the call, in its own words.
REFUSED_BY_TVM = {"dft"}

#: Operators that Relay refuses without indices where it knows that there are none; a call then takes nothing.
REFUSED_WITHOUT_INDICES = {"gather"}

#: Memory that nobody wrote has strange numbers.
PERTURBED_MEMORY = {"MALLOC_PERTURB_": "165"}

#: Where glibc can, writing behind one's own memory ends the process.
CHECKED_MEMORY = {
    **PERTURBED_MEMORY,
    "MALLOC_CHECK_": "3",
    "LD_PRELOAD": ctypes.util.find_library("c_malloc_debug") or "",
}

#: What the library that checks must allow, since TVM does so; that of glibc 2.43 ends the process.
FREES_ALIGNED_MEMORY = """
import ctypes
libc, place = ctypes.CDLL(None), ctypes.c_void_p()
for size in range(1, 2000):
    assert libc.posix_memalign(ctypes.byref(place), ctypes.c_size_t(64), ctypes.c_size_t(size)) == 0
    libc.free(place)
"""

#: How many calls of known sizes are compiled in any case; the reference judges the others in a tenth of it.
COMPILED = 3


#: How many processes share the operators.
SHARES = 4


@cache
def checked_memory():
    """The environment of a process whose memory is checked as far as the C library can."""
    try:
        run_python("-c", FREES_ALIGNED_MEMORY, **CHECKED_MEMORY)
    except AssertionError:
        return PERTURBED_MEMORY
    return CHECKED_MEMORY


class Refused(Exception):
    """The call cannot be made; the text says why."""


def at_the_end_of_a_page(value, kept):
    """The array, or tuple of arrays, where nothing can be read behind it."""
    if isinstance(value, tuple):
        return tuple(at_the_end_of_a_page(part, kept) for part in value)
    if value.nbytes == 0:
        return value
    pages = -(-value.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    kept.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + pages), mmap.PAGESIZE, 0) == 0
    actual = np.frombuffer(memory, value.dtype, value.size, pages - value.nbytes).reshape(value.shape)
    actual[...] = value
    return actual


def plain_build(module, entry):
    """What a program of known sizes judges with: its loops, which LLVM need not optimise."""
    with pytest.MonkeyPatch.context() as changes:
        leave_unoptimized(changes)
        return build(module, entry)


def prepare(call, build_executable=build):
    """The parameters and the executable of a call."""
    try:
        module = call.module()
        return module.functions["main"].params, build_executable(module, "main")
    except CompileError as error:
        raise Refused(str(error)) from error


def result(params, executable, values):
    dims, kept = {}, []
    try:
        given = [
            convert_argument(Parameter(param.name_hint, param.checked_type), value, dims)
            for param, value in zip(params, values, strict=True)
        ]
        return executable([at_the_end_of_a_page(value, kept) for value in given])
    except (ValueError, IndexError, MemoryError) as error:
        raise Refused(str(error)) from error


def interpret(module, entry):
    """What runs a function by the reference, which need not check what it is given."""

    def run(values):
        try:
            return Interpreter(module).run(entry, values)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise Refused(str(error)) from error

    return run


def run(call, values, judge=plain_build):
    return result(*prepare(call, judge), values)


def outcome(function):
    try:
        return function()
    except Refused as refusal:
        return refusal


def tensors(value):
    return [one for part in value for one in tensors(part)] if isinstance(value, tuple) else [value]


def describe(call):
    return f"{call.name}({', '.join(map(str, call.args))[:300]}) {call.attrs}"


def check_refusal(call, refusal):
    """It says what is wrong in the words of a user: of the operator or of an argument."""
    text = str(refusal)
    named = call.name in text or any(f"p{index} " in text for index, _ in call.tensors())
    is_index = text.startswith("index ")  # NumPy's words: the error shows the line of the index
    named = named or call.name == "python.sized"  # the words are the caller's
    assert named or is_index, f"{describe(call)}: {text}"
    assert "Check failed" not in text, f"{describe(call)}: {text}"


def with_sizes(call, sizes):
    """The call with these dimensions, one after the other, for those of all its tensors."""
    left = iter(sizes)
    return call.with_types(lambda _, type_: TensorType(tuple(next(left) for _ in type_.shape), type_.dtype))


def sizes_of(call):
    return [dim for _, type_ in call.tensors() for dim in type_.shape]


def variants(call):
    """Sizes near those of the call: each dimension, and all of one length together, as 0, 1 and one more."""
    own = sizes_of(call)
    actual = []
    for index, size in enumerate(own):
        actual += [[*own[:index], new, *own[index + 1 :]] for new in (0, 1, size + 1)]
    for size in set(own):
        actual += [[new if one == size else one for one in own] for new in (0, 1, size + 1)]
    near = dict.fromkeys([tuple(own), (0,) * len(own), *sample(map(tuple, actual), 14)])
    return [list(one) for one in near]


def check(call):
    """The call with every dimension left open, at sizes near its own, against the call of those sizes."""
    own = sizes_of(call)
    free = outcome(lambda: prepare(with_sizes(call, [AnyDim(f"d{index}") for index in range(len(own))])))
    if isinstance(free, Refused) and call.name not in REFUSED_BY_TVM:
        check_refusal(call, free)
    if not isinstance(free, Refused):
        assert isinstance(free[1], AotExecutable), describe(call)
    for number, sizes in enumerate(variants(call)):
        known = with_sizes(call, sizes)
        values = arrays(known)
        sys.stdout.write(f"{describe(known)}\n")  # what was the last, if it crashes
        sys.stdout.flush()
        actual = free if isinstance(free, Refused) else outcome(partial(result, *free, values))
        may_ask = number >= COMPILED and call.name in REFERENCE and not isinstance(actual, Refused)
        if may_ask and agree(actual, outcome(partial(run, known, values, interpret))):
            continue
        expected = outcome(partial(run, known, values))
        if isinstance(expected, Refused):
            check_refusal(known, expected)
        if isinstance(free, Refused):
            continue
        if isinstance(actual, Refused):
            check_refusal(known, actual)
            assert isinstance(expected, Refused), f"{describe(known)}: {actual}"
            continue
        if isinstance(expected, Refused) and call.name in REFUSED_WITHOUT_INDICES and values[1].size == 0:
            assert actual.size == 0
            continue
        assert not isinstance(expected, Refused), f"{describe(known)} runs when not known, but: {expected}"
        assert agree(actual, expected), f"{describe(known)}: {actual} is not {expected}"


def agree(actual, expected):
    """Whether results are those expected, which a refusal is not."""
    return not isinstance(expected, Refused) and all(
        (one.shape, one.dtype) == (other.shape, other.dtype)
        and np.allclose(one.astype("f8"), other.astype("f8"), rtol=1e-5, atol=1e-6, equal_nan=True)
        for one, other in zip(tensors(actual), tensors(expected), strict=True)
    )


def main(share, *names):
    first = {call.name: call for call in reversed(of_the_operators()) if call.name in RULES}
    failed = []
    for index, call in enumerate(first.values()):
        if index % SHARES == share if not names else call.name in names:
            try:
                check(call)
            except AssertionError as error:
                failed.append(str(error))
    if failed:
        sys.exit("\n".join(failed))


@pytest.mark.full
@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("share", range(SHARES))
def test_sizes_around_those_of_a_call(share):
    run_python("-m", "tests.engine.relax.legalize.test_rules_robust", str(share), **checked_memory())


@pytest.mark.full
def test_every_operator_has_a_call():
    missing = (
        # No call of the first gives a value; windows are read where their indices are known to be in range.
        set(RULES) - {call.name for call in of_the_operators()} - {"python.raise", "python.window"}
    )
    others = ("random.", "numpy.pcg64", "qnn.", "vision.", "nnmagic.")
    assert not {name for name in missing if not name.startswith(others)}


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
