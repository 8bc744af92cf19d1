"""Functions that are exported to C: programs that a compiler of C builds give the notebook's bits.

They judge `engine/relax/codegen/c/entry_code`, `engine/relax/codegen/c/functions`,
`engine/relax/codegen/c/runtime_code`, `engine/relax/codegen/c/target_code`,
`engine/relax/codegen/c/llvm_linking`, `engine/relax/codegen/c/export` and `functions/exporting/header`.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.functions.exporting import archive
from tests.functions.exporting.c_programs import (
    CC,
    CLEAN,
    RUN_WASM,
    WASM_TOOLS,
    Calls,
    read_header,
    run,
    wasm_program,
)

RANDOM = np.random.default_rng(52)

needs_cc = pytest.mark.skipif(CC is None, reason="there is no compiler of C here")


def singles(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def doubles(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


#: A cell for each kind of program and of argument, with the arguments of a call.
PROGRAMS: list[tuple[str, tuple[object, ...]]] = [
    ("def gauss(x: f64): return exp(-x * x)", (1.25,)),
    ('def axpy(a: f32, x: Tensor[("n",), f32], y: Tensor[("n",), f32]): return a * x + y',
     (np.float32(2), singles(37), singles(37))),
    ("""def fibonacci(n: i64):
    a, b = 0, 1
    for i in range(n):
        a, b = b, a + b
    return a""", (np.int64(20),)),
    ("""def smooth(x: Tensor[("n",), f64]):
    y = x.copy()
    for i in range(1, x.shape[0]):
        y[i] = 0.5 * y[i - 1] + x[i]
    return y""", (doubles(50),)),
    ('def layer(x: Tensor[("n", "k"), f32], w: Tensor[("k", "m"), f32]): return tanh(x @ w)',
     (singles(33, 20), singles(20, 17))),
    ("def product(x: Tensor[(120, 200), f32], w: Tensor[(200, 100), f32]): return x @ w",
     (singles(120, 200), singles(200, 100))),
    ("""def convolve(x: Tensor[(1, 3, 16, 16), f32], w: Tensor[(8, 3, 3, 3), f32]):
    return relu(conv2d(x, w, padding=1))""", (singles(1, 3, 16, 16), singles(8, 3, 3, 3))),
    ("def spectrum(x: Tensor[(64,), f64]): return abs(rfft(x)) ** 2", (doubles(64),)),
    ('def ranks(x: Tensor[("n",), f32]): return sort(x), argsort(x)', (singles(101),)),
    ("""def walk(n: i64):
    rng = np.random.default_rng(42)
    s = 0.0
    for i in range(n):
        s += rng.random()
    return s, rng.uniform(1.0, 3.0), rng.random(9), rng.random(5, dtype="float32")""", (np.int64(100),)),
    ('def weights(x: Tensor[("n", "m"), f32]): return softmax(x)', (singles(9, 31),)),
    ('def positive(x: Tensor[("n",), f64]): return x[x > 0.0]', (doubles(31),)),
    ("""def loss_of(x: Tensor[("n", 3), f32], y: Tensor[("n",), f32], w: Tensor[(3,), f32]):
    def loss(w): return mean((x @ w - y) ** 2)
    return value_and_grad(loss)(w)""", (singles(40, 3), singles(40), singles(3))),
    ("""def bubble(x: InOut[Tensor[("n",), f64]]):
    for i in range(x.shape[0]):
        for j in range(x.shape[0] - 1 - i):
            if x[j] > x[j + 1]:
                t = x[j]
                x[j] = x[j + 1]
                x[j + 1] = t""", (doubles(20),)),
    ("""def twice(x: Tensor[("n",), f32], out: Out[Tensor[("n",), f32]]):
    out[:] = x * 2.0""", (singles(20), np.zeros(20, "float32"))),
    ("""def shifted(x: InOut[Tensor[("n",), f64]]):
    x[:] = x[::-1] + cumsum(x)""", (doubles(9),)),
    ("""def counts(x: Tensor[("n",), i32], b: Tensor[("n",), bool_]):
    return sum(where(b, x, 0)), x // 3, x > 2""",
     (RANDOM.integers(-9, 9, 40).astype("int32"), RANDOM.random(40) > 0.5)),
    ('def halves(x: Tensor[("n",), f16], s: f16): return x * s + 1.0',
     (singles(20).astype("float16"), np.float16(1.5))),
    ("""def collatz(n: i64):
    c = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        c += 1
    return c""", (np.int64(27),)),
    ('def statistics(x: Tensor[("n", "m"), f64]): return mean(x, axis=0), std(x), cumsum(x, axis=1)',
     (doubles(12, 7),)),
    ('def joined(x: Tensor[("n",), f64], y: Tensor[("m",), f64]): return concatenate([x, y]), outer(x, y)',
     (doubles(4), doubles(6))),
    ('def large(x: Tensor[("n", "m"), f32]): return sum(exp(x), axis=1)', (singles(500, 300),)),
    ("""def deep(n: i64) -> Tensor[(), i64]:
    return n if n < 2 else deep(n - 1) + deep(n - 2)""", (np.int64(15),)),
    ("""def train(params: tuple[Tensor[(4, 8), f32], Tensor[(8,), f32]], x: Tensor[("n", 4), f32],
          y: Tensor[("n", 8), f32]):
    def loss(p):
        w, b = p
        return mean((tanh(x @ w + b) - y) ** 2)
    v, (gw, gb) = value_and_grad(loss)(params)
    w, b = params
    return v, (w - 0.1 * gw, b - 0.1 * gb)""",
     ((singles(4, 8), singles(8)), singles(10, 4), singles(10, 8))),
    ("def solved(a: Tensor[(3, 3), f64], b: Tensor[(3,), f64]): return solve(a, b)",
     (doubles(3, 3), doubles(3))),
    ("def table(n: i64): return arange(n) * 2", (np.int64(7),)),
    ("""class Body:
    place: Tensor[(3,), f64]
    speed: Tensor[(3,), f64]
    mass: f64

def moved(body: Body, force: Tensor[(3,), f64], time: f64) -> Body:
    speed = body.speed + force / body.mass * time
    return Body(body.place + speed * time, speed, body.mass)""",
     ({"place": doubles(3), "speed": doubles(3), "mass": np.float64(2)}, doubles(3), np.float64(0.1))),
]  # fmt: skip


@pytest.fixture(scope="module")
def functions() -> list[tuple[Any, tuple[object, ...]]]:
    return [(nnmagic.compile(text), args) for text, args in PROGRAMS]


def exported(folder: Path, pairs: list[tuple[Any, tuple[object, ...]]], target: str | None = None) -> Calls:
    """Write a library of all functions and the program that calls them, and return the calls."""
    nnmagic.export(folder / "liball.a", *(function for function, _ in pairs), target=target)
    calls = Calls((folder / "liball.h").read_text("utf-8"), pairs)
    (folder / "main.c").write_text(calls.program("liball.h"), "utf-8")
    return calls


def built(folder: Path, *command: str) -> Path:
    program = folder / "main"
    run([*command, *CLEAN, folder / "main.c", folder / "liball.a", "-lm", "-o", program])
    return program


def assert_equal(calls: Calls, output: bytes, *, exact: bool) -> None:
    for (name, got), (_, want) in zip(calls.printed(output), calls.expected(), strict=True):
        if exact or want.dtype.kind in "iub":
            assert got.tobytes() == np.ascontiguousarray(want).tobytes(), name
        else:
            relative, absolute = (2e-4, 1e-6) if want.dtype.itemsize < 8 else (1e-12, 1e-14)
            largest = np.abs(want).max(initial=0)  # what terms of sums that cancel are rounded by
            np.testing.assert_allclose(got, want, relative, absolute * largest, err_msg=name)


@needs_cc
@pytest.mark.budget(3)
def test_a_program_of_c_gives_the_bits_of_the_notebook(tmp_path: Path) -> None:
    pairs = [(nnmagic.compile(text), args) for text, args in (PROGRAMS[0], PROGRAMS[13])]
    calls = exported(tmp_path, pairs)
    assert_equal(calls, run([built(tmp_path, str(CC))]), exact=True)


@pytest.fixture(scope="module")
def native(
    functions: list[tuple[Any, tuple[object, ...]]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Calls]:
    folder = tmp_path_factory.mktemp("native")
    return folder, exported(folder, functions)


@needs_cc
@pytest.mark.full
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "gcc -fsanitize=address,undefined"])
def test_every_program_gives_the_bits_of_the_notebook(compiler: str, native: tuple[Path, Calls]) -> None:
    if shutil.which(compiler.split(maxsplit=1)[0]) is None:
        pytest.skip(f"{compiler} is not here")
    folder, calls = native
    if compiler == "g++":  # C++ takes the header
        (folder / "empty.cc").write_text('#include "liball.h"\nint main() { return 0; }\n')
        run(["g++", "-Wall", "-Wextra", "-Werror", "-c", folder / "empty.cc", "-o", folder / "empty.o"])
        return
    assert_equal(calls, run([built(folder, *compiler.split())]), exact=True)


@needs_cc
@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "compiler", "runner"),
    [
        ("x86_64-v3", "gcc", "valgrind -q --error-exitcode=9 --leak-check=full"),
        ("aarch64-linux", "aarch64-linux-gnu-gcc -static", "qemu-aarch64-static"),
        ("riscv64-linux", "riscv64-linux-gnu-gcc -static", "qemu-riscv64-static"),
    ],
)
def test_every_program_runs_on_other_machines(
    target: str, compiler: str, runner: str, functions: list[tuple[Any, tuple[object, ...]]], tmp_path: Path
) -> None:
    needed = (command.split(maxsplit=1)[0] for command in (compiler, runner))
    missing = [name for name in needed if shutil.which(name) is None]
    if missing or (target.startswith("x86") and os.uname().machine != "x86_64"):
        pytest.skip(f"{', '.join(missing) or 'x86-64'} is not here")
    calls = exported(tmp_path, functions, target)
    assert_equal(calls, run([*runner.split(), built(tmp_path, *compiler.split())]), exact=False)


@pytest.mark.full
def test_every_program_runs_as_webassembly_in_node(
    functions: list[tuple[Any, tuple[object, ...]]], tmp_path: Path
) -> None:
    if missing := [name for name in ("node", *WASM_TOOLS) if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not here")
    calls = exported(tmp_path, functions, "wasm32")
    run_it = 'process.stdout.write(Uint8Array.from(runWasm(require("fs").readFileSync(process.argv[1]))))'
    output = run(["node", "-e", f"{RUN_WASM}\n{run_it}", wasm_program(tmp_path)])
    assert_equal(calls, output, exact=False)


_NODE = """
const module = new WebAssembly.Module(require("fs").readFileSync(process.argv[1]));
const wasm = new WebAssembly.Instance(module, {env: {}}).exports;
const begin = wasm.__heap_base.value, x = new Float64Array(wasm.memory.buffer, begin, 8);
for (let i = 0; i < 8; i++) x[i] = (i * 5) % 7;
const code = wasm.bubble(begin, 8n);
console.log(code, Array.from(x).join(" "));
"""


@pytest.mark.full
def test_a_module_of_webassembly_exports_the_functions(tmp_path: Path) -> None:
    if missing := [name for name in ("node", "wasm-ld") if shutil.which(name) is None]:
        pytest.skip(f"{', '.join(missing)} is not here")
    nnmagic.compile(PROGRAMS[13][0]).export(tmp_path / "sort.wasm")
    output = run(["node", "-e", _NODE, tmp_path / "sort.wasm"]).decode().split()
    assert output == ["0", *(str(each) for each in sorted(i * 5 % 7 for i in range(8)))]


_HOST = """
#include <stdio.h>
#include <stdlib.h>
#include "liball.h"
static int allocated, released, tasks;
static void *allocate(void *context, size_t bytes) { (void)context; allocated++; return malloc(bytes); }
static void release(void *context, void *memory) { (void)context; released++; free(memory); }
static int parallel(void *context, int (*task)(void *, int, int), void *data, int count) {
    int code = 0;
    (void)context;
    for (int number = 0; number < count; number++) { tasks++; code |= task(data, number, count); }
    return code;
}
int main(void) {
    static float x[500 * 300], one[500], two[500];
    nnm_host host = {NULL, allocate, release, parallel, 4};
    for (int i = 0; i < 500 * 300; i++) x[i] = (float)(i % 13) / 13.0f;
    if (large(x, 500, 300, one) || large_with(&host, x, 500, 300, two)) return 1;
    for (int i = 0; i < 500; i++) if (one[i] != two[i]) return 2;
    if (allocated != released || tasks % 4) return 3;
    printf("%d", tasks > 0);
    return 0;
}
"""


@needs_cc
@pytest.mark.full
def test_a_host_gives_memory_and_threads(tmp_path: Path) -> None:
    text = next(text for text, _ in PROGRAMS if "def large" in text)
    nnmagic.compile(text).export(tmp_path / "liball.a")
    (tmp_path / "main.c").write_text(_HOST)
    assert run([built(tmp_path, str(CC))]) == b"1"


_FAILING = """
#include <stdio.h>
#include "liball.h"
int main(void) {
    double x[3] = {1, 2, 3}, y;
    int code = item(x, 3, 7, &y);
    puts(item_message(code));
    code = item(x, 3, -7, &y);
    puts(item_message(code));
    puts(item_message(item(x, -1, 0, &y)));
    puts(item_message(checked(-1.0, &y)));
    puts(item_message(checked(4.0, &y)));
    puts(checked_message(checked(-1.0, &y)));
    return checked(4.0, &y) || y != 2.0;
}
"""


@needs_cc
@pytest.mark.full
def test_what_fails_is_a_code_with_a_message(tmp_path: Path) -> None:
    item = nnmagic.compile('def item(x: Tensor[("n",), f64], i: i64): return x[i]')
    checked = nnmagic.compile(
        'def checked(x: f64):\n    assert x > 0.0, "x must be positive"\n    return sqrt(x)'
    )
    nnmagic.export(tmp_path / "liball.a", item, checked)
    (tmp_path / "main.c").write_text(_FAILING)
    lines = run([built(tmp_path, str(CC))]).decode().splitlines()
    assert lines[:3] == ["IndexError: an index is out of range"] * 2 + [
        "the sizes do not fit together, or one is negative"
    ]
    assert lines[3] == lines[0]  # of another function's code, which is 16, too
    assert lines[4:] == ["no error", "AssertionError: x must be positive"]


@needs_cc
@pytest.mark.full
def test_the_archive_has_an_example_that_builds(tmp_path: Path) -> None:
    nnmagic.compile(PROGRAMS[4][0]).export(tmp_path / "layer.zip")
    with zipfile.ZipFile(tmp_path / "layer.zip") as whole:
        assert set(whole.namelist()) == {
            "liblayer.a",
            "layer.h",
            "layer.hpp",
            "layer.rs",
            "example.c",
            "CMakeLists.txt",
        }
        whole.extractall(tmp_path)
    command = [CC, *CLEAN, tmp_path / "example.c", tmp_path / "liblayer.a", "-lm", "-o", tmp_path / "example"]
    run(command)
    assert run([tmp_path / "example"]) == b"layer: no error\n"


@needs_cc
@pytest.mark.full
def test_a_shared_library_needs_libm_and_libc_alone(tmp_path: Path) -> None:
    nnmagic.compile(PROGRAMS[4][0]).export(tmp_path / "liblayer.so")
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not here")
    lines = run(["readelf", "-d", tmp_path / "liblayer.so"]).decode().splitlines()
    needed = {line.split("[")[1].rstrip("]") for line in lines if "NEEDED" in line}
    assert needed <= {"libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"}
    symbols = run(["readelf", "-sW", "--dyn-syms", tmp_path / "liblayer.so"]).decode()
    own = {
        line.split()[-1]
        for line in symbols.splitlines()
        if " GLOBAL DEFAULT " in line and " UND " not in line
    }
    assert own == {"layer", "layer_with", "layer_message"}


def test_an_archive_has_an_index_of_its_symbols() -> None:
    whole = archive.archive("f.o", b"code!", ["f", "f_with"])
    assert whole.startswith(b"!<arch>\n/ ")
    count, first, second = struct.unpack(">III", whole[68:80])
    assert (count, first, second) == (2, whole.index(b"f.o/"), whole.index(b"f.o/"))
    assert whole[80:89] == b"f\0f_with\0"
    assert whole.endswith(b"code!\n")


@pytest.mark.parametrize(
    ("text", "path", "error", "said"),
    [
        (
            "def f(x: f64): return x",
            "f.txt",
            ValueError,
            "export writes .o, .a, .so, .zip, .wasm, .hpp, .rs, not '.txt'",
        ),
        ("def exp2(x: f64): return x", "f.o", ValueError, "C's library has a function 'exp2'"),
        ("def double(x: f64): return x", "f.o", ValueError, "cannot have the name 'double'"),
        (
            "def f(x: c128): return x",
            "f.o",
            nnmagic.EngineError,
            "@f cannot become C: it takes or returns complex",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(
    text: str, path: str, error: type[Exception], said: str, tmp_path: Path
) -> None:
    function = nnmagic.compile(text)
    with pytest.raises(error) as caught:
        function.export(tmp_path / path)
    assert said in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(x: Tensor[(9, 9), f64]): return eigvalsh(x)", "it calls LAPACK's dsyevd"),
        (
            "def f(n: i64): return np.random.default_rng(1).standard_normal(4)",
            "NumPy's own library draws standard_normal_fill",
        ),
        (
            'def f(x: Tensor[("n",), f64]): return median(x)',
            "only Python knows whether the sizes of a call fit",
        ),
    ],
)
def test_what_needs_a_library_is_refused_by_name(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(nnmagic.EngineError) as caught:
        nnmagic.compile(text).export(tmp_path / "f.o")
    assert said in str(caught.value)
    assert "help: " in str(caught.value)


def test_a_function_without_types_says_what_to_export(tmp_path: Path) -> None:
    @nnmagic.function
    def g(x):
        return x

    with pytest.raises(TypeError, match=r"export one of its specializations"):
        g.export(tmp_path / "g.o")
    with pytest.raises(TypeError, match="export takes compiled functions, not"):
        nnmagic.export(tmp_path / "g.o", len)  # type: ignore[arg-type]  # on purpose


def test_two_functions_of_a_name_are_refused(tmp_path: Path) -> None:
    f, g = (nnmagic.compile(f"def {name}(x: f64): return x") for name in ("f", "f_with"))
    with pytest.raises(ValueError, match="two functions would have the name 'f_with' in C"):
        nnmagic.export(tmp_path / "f.o", f, g)


def test_a_target_that_is_not_known_lists_the_others(tmp_path: Path) -> None:
    with pytest.raises(nnmagic.EngineError, match="the targets are x86_64, x86_64-v2"):
        nnmagic.compile("def f(x: f64): return x").export(tmp_path / "f.o", target="z80")


@pytest.mark.full
def test_a_missing_linker_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(nnmagic.EngineError, match="a shared library needs a linker"):
        nnmagic.compile("def f(x: f64): return x").export(tmp_path / "f.so")
    nnmagic.compile("def f(x: f64): return x").export(tmp_path / "f.o")
    assert (tmp_path / "f.h").exists()


@needs_cc
@pytest.mark.full
def test_the_header_shows_docstring_types_and_sizes(tmp_path: Path) -> None:
    doc = '    """Average the rows. */ \\\\"""'
    text = f'def mean_of(x: Tensor[("n", 3), f32]):\n{doc}\n    return mean(x, axis=0)'
    nnmagic.compile(text).export(tmp_path / "libmean.o")
    shown = (tmp_path / "libmean.h").read_text("utf-8")
    assert "/* Average the rows. * / " in shown
    assert "int mean_of(const float *x, int64_t n, float *result);" in shown
    arguments = {each.name: each for each in read_header(shown)["mean_of"]}
    assert arguments["x"].shape == ("n", "3")
    assert arguments["result"].role == "written"
    subprocess.run([str(CC), *CLEAN, "-x", "c", "-fsyntax-only", tmp_path / "libmean.h"], check=True)
