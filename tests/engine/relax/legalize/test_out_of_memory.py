"""What asks for more than a dimension holds is refused: when compiling if that is known, else at the call."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nnmagic.engine import EngineError
from tests.child_process import run_python
from tests.engine.programs import compile_text


def zeros(*shape, dtype="f4"):
    return np.zeros(shape, dtype)


#: parameters, body, arguments that do not fit, the message. All dimensions that do not fit are ``?``.
AT_THE_CALL = [
    (
        "%x: Tensor[(?, 8), float32]",
        'topk(%x, k=3, axis=0, ret_type="values")',
        [zeros(2, 8)],
        "topk: k is 3",
    ),
]


@pytest.mark.parametrize("axis", [1, -1])
def test_topk_of_more_than_there_is(axis):
    call = f'topk(%x, k=20, axis={axis}, ret_type="values")'
    with pytest.raises(EngineError, match="topk: k is 20, more elements than axis 1 has"):
        compile_text(f"def @main(%x: Tensor[(3, 4), float32]) {{ {call} }}")


def main():
    for params, body, arguments, message in AT_THE_CALL:
        executable = compile_text(f"def @main({params}) {{ {body} }}")
        with pytest.raises(ValueError, match=message):
            executable(arguments)


@pytest.mark.full
def test_at_the_call_in_a_child_process():
    run = subprocess.run(
        [sys.executable, "-m", "tests.engine.relax.legalize.test_out_of_memory"],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, f"exit status {run.returncode}\n{run.stdout}\n{run.stderr}"


if __name__ == "__main__":
    main()


WRAPPED = """
import numpy as np
import nnmagic

for size in ("k", "(k, k)", "(2, k, 3)"):
    f = nnmagic.compile(
        f"def f(k: i64):\\n    y = np.zeros({size})\\n    y[k // 2] = 1.0\\n    return y[0]\\n",
        namespace={"np": np}, cache=False,
    )
    for k in (2**61, 2**62 + 1, 2**63 - 1):
        try:
            f(k)
        except ValueError as error:
            assert "the dimensions are too large" in str(error), error
        except MemoryError as error:
            assert "needs more memory than there is" in str(error), error
        else:
            raise AssertionError(size)
    assert f(3).sum() == 0
"""


@pytest.mark.full
def test_sizes_of_values_whose_bytes_wrap_around_are_refused():
    run_python("-c", WRAPPED)


INSIDE = """
import numpy as np
import nnmagic

for body in ("np.zeros((n, n)).sum()", "np.cumsum(np.ones((n, n)) * 2).max()", "np.median(np.ones((n, n)))"):
    f = nnmagic.compile(
        f"def f(x: Tensor[('m', 'n'), f64]):\\n    n = x.shape[1]\\n    return {body}\\n",
        namespace={"np": np}, cache=False,
    )
    for n in (10**7, 3037000500, 2**31, 2**32, 10**13):
        try:
            f(np.zeros((0, n)))
        except (MemoryError, ValueError) as error:
            assert "needs more memory than there is" in str(error) or "too large" in str(error), error
        else:
            raise AssertionError((body, n))
    assert f(np.zeros((0, 3))) == eval(body.replace("n,", "3,").replace("n)", "3)"))
"""


@pytest.mark.full
def test_memory_that_a_kernel_takes_for_itself_is_refused_where_there_is_not_enough():
    """A product of sizes that wrapped around ended the process, and so did the exception of TVM's pool."""
    run_python("-c", INSIDE)
