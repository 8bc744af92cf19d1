"""Einstein sums against NumPy: contractions as products, of any letters, dtypes, known and named sizes."""

import random

import numpy as np
import pytest

from nnmagic import compile as compile_source
from tests.suites import sample

pytestmark = pytest.mark.sampled(every=3)

#: Products of two and more tensors, in every order of their letters.
EQUATIONS = """
    ij,jk->ik ij,kj->ik ji,jk->ik ij,jk->ki ij,j->i i,ij->j i,i-> i,j->ij ij,ij->i ij,ij-> ij,ij->ij
    bij,bjk->bik bqhd,bkhd->bhqk bhqk,bkhd->bqhd ijk,jkl->il ijk,kjl->il aib,bja->ij abc,cde->abde
    ij,kl-> ij,k->j ij,jk,kl->il i,i,i-> ni,oij,nj->no ijk,j,k->i abcd,dcba->
"""


def check(equation, sizes, dtype, *, named):
    """Integers as small as these are exact in every dtype."""
    terms = equation.partition("->")[0].split(",")
    generator = np.random.default_rng(len(equation))
    arrays = [generator.integers(-2, 3, [sizes[letter] for letter in term]).astype(dtype) for term in terms]
    names = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "bool": "bool_"}
    dims = [[f'"{letter}"' if named else str(sizes[letter]) for letter in term] for term in terms]
    parameters = ", ".join(
        f"x{number}: Tensor[({', '.join(own)}{',' * (len(own) == 1)}), {names[dtype]}]"
        for number, own in enumerate(dims)
    )
    operands = ", ".join(f"x{number}" for number in range(len(terms)))
    source = f"def f({parameters}):\n    return einsum({equation!r}, {operands})\n"
    result = np.asarray(compile_source(source, cache=False)(*arrays))
    expected = np.einsum(equation, *(array.astype("int64") for array in arrays)).astype(dtype)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.full("bhqk,bkhd->bqhd-True", "ij,jk->ki-True")
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("equation", EQUATIONS.split())
def test_equations(equation, named):
    sizes = dict(zip(sorted({*equation} - {*",->"}), (3, 5, 17, 2, 4), strict=False))
    check(equation, sizes, "float32", named=named)


@pytest.mark.parametrize("dtype", ["float64", "int32", "int64", "bool"])
def test_dtypes(dtype):
    check("ij,kj->ik", {"i": 9, "j": 33, "k": 20}, dtype, named=False)
    check("bij,jb->bi", {"i": 9, "j": 33, "b": 3}, dtype, named=True)


@pytest.mark.full
@pytest.mark.parametrize("letter", "ijk")
def test_no_elements(letter):
    check("ij,jk->ik", {"i": 3, "j": 4, "k": 5, letter: 0}, "float32", named=True)
    check("ij,jk->ki", {"i": 3, "j": 4, "k": 5, letter: 0}, "float32", named=False)


@pytest.mark.full
@pytest.mark.parametrize("seed", sample(range(4), 2))
def test_random_equations(seed):
    choose = random.Random(seed)
    for _ in range(15):
        terms = ["".join(choose.sample("abcdef", choose.randint(0, 4))) for _ in range(choose.randint(2, 4))]
        letters = sorted(set("".join(terms)))
        result = "".join(choose.sample(letters, choose.randint(0, min(4, len(letters)))))
        sizes = {letter: choose.choice([1, 2, 3, 5, 17]) for letter in letters}
        dtype = choose.choice(["float32", "int64", "bool"])
        check(f"{','.join(terms)}->{result}", sizes, dtype, named=choose.random() < 0.5)
