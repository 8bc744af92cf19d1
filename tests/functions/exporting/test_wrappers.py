"""Wrappers of exported functions: C++ and Rust get NumPy's results, and errors where sizes differ.

They judge `functions/exporting/cpp`, `functions/exporting/rust` and `functions/exporting/wrapped_function`.
"""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

import nnmagic

SOURCES = (
    'def layer(x: Tensor[("n", "k"), f32], w: Tensor[("k", "m"), f32]):\n'
    '    """Apply a layer.\n\n    And add up what it gets."""\n    return tanh(x @ w), x.sum()',
    'def positive(x: Tensor[("n",), f64], b: Tensor[(2,), bool_], type: i64):\n'
    "    return x[x > 0.0], type + 1, ~b",
    'def fill(x: Tensor[("n",), f32], out: InOut[Tensor[("m", 2), f32]]):\n    out[:] = x.sum() + out',
)

CPP = """#include "libown.hpp"
#include <cstdio>
#include <vector>
int main() {
    std::vector<float> x(6, 0.5f), w(12, 0.25f), out(4, 1.0f);
    auto [y, s] = own_cpp::layer({x.data(), {2, 3}}, {w.data(), {3, 4}});
    printf("%zu %zu %.5f %g\\n", y.shape[0], y.shape[1], y[7], s);
    std::vector<double> v{1, -2, 3};
    bool b[2] = {true, false};
    auto [p, i, nb] = own_cpp::positive(v, b, 41);
    printf("%zu %g %g %lld %d %d\\n", p.size(), p[0], p[1], (long long)i, nb[0], nb[1]);
    own_cpp::fill(x, {out.data(), {2, 2}});
    printf("%g\\n", out[3]);
    try { own_cpp::positive(v, std::span<const bool>(b, 1), 1); }
    catch (const nnm::error &e) { printf("%d %s\\n", e.code, e.what()); }
    try { own_cpp::layer({x.data(), {2, 3}}, {w.data(), {2, 6}}); }
    catch (const nnm::error &e) { printf("%d %s\\n", e.code, e.what()); }
}
"""

RUST = """#[path = "libown.rs"]
mod own;
use own::*;
fn main() {
    let (x, w, mut out) = ([0.5f32; 6], [0.25f32; 12], [1f32; 4]);
    let (y, s) = layer(View { data: &x, shape: [2, 3] }, View { data: &w, shape: [3, 4] }).unwrap();
    println!("{} {} {:.5} {}", y.shape[0], y.shape[1], y.data[7], s);
    let v = [1.0f64, -2.0, 3.0];
    let (p, i, nb) = positive(&v[..], &[true, false][..], 41).unwrap();
    let (a, b) = (nb.data[0] as i32, nb.data[1] as i32);
    println!("{} {} {} {} {} {}", p.data.len(), p.data[0], p.data[1], i, a, b);
    fill(&x[..], ViewMut { data: &mut out, shape: [2, 2] }).unwrap();
    println!("{}", out[3]);
    let e = positive(&v[..], &[true][..], 1).unwrap_err();
    println!("{} {}", e.code, e);
    let e = layer(View { data: &x, shape: [2, 3] }, View { data: &w, shape: [2, 6] }).unwrap_err();
    println!("{} {}", e.code, e.message);
    assert!(layer(View { data: &x, shape: [3, 3] }, View { data: &w, shape: [3, 4] }).is_err());
}
"""

EXPECTED = (
    f"2 4 {np.tanh(3 * 0.125):.5f} 3\n2 1 3 42 0 1\n4\n"
    "1 positive: axis 0 of b must be 2\n1 layer: axis 0 of w must be k\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrappers")
    functions = [nnmagic.compile(source) for source in SOURCES]
    for suffix in (".a", ".hpp", ".rs", ".zip"):
        nnmagic.export(folder / f"libown{suffix}", *functions)
    (folder / "main.cpp").write_text(CPP)
    (folder / "main.rs").write_text(RUST)
    return folder


def run(folder: Path, *command: str) -> str:
    subprocess.run(command, cwd=folder, check=True)
    return subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout


@pytest.mark.full
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_cpp(folder: Path, compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not here")
    options = ("-std=c++20", "-Wall", "-Wextra", "-Werror")
    assert run(folder, compiler, *options, "main.cpp", "libown.a", "-lm", "-o", "main") == EXPECTED
    assert "/// Apply a layer.\n///\n/// And add up" in (folder / "libown.hpp").read_text()


@pytest.mark.full
def test_rust(folder: Path) -> None:
    if shutil.which("rustc") is None:
        pytest.skip("rustc is not here")
    options = ("--edition", "2021", "-D", "warnings", "-l", "static=own", "-l", "m", "-L", ".")
    assert run(folder, "rustc", *options, "main.rs", "-o", "main") == EXPECTED


@pytest.mark.full
def test_the_archive_for_cmake_has_both(folder: Path) -> None:
    with zipfile.ZipFile(folder / "libown.zip") as archive:
        assert {"own.h", "own.hpp", "own.rs", "libown.a"} <= set(archive.namelist())
        assert '#include "own.h"' in archive.read("own.hpp").decode()
