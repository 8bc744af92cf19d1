"""Run a Python for Windows under Wine: `windows_python.py FOLDER ARGUMENT...`.

FOLDER keeps it, with the packages of nnmagic and its tests. Windows' Python itself is in Panda3D's wheel,
which freezes programs with it; the standard library is that of the Python which runs this. MinGW's compiler
makes the rest: python.exe, python3.dll, and what Wine lacks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import lief

ROOT = Path(__file__).parent.parent
VERSION = f"{sys.version_info.major}{sys.version_info.minor}"
COMPILER = "x86_64-w64-mingw32-gcc"
#: pip reads markers for the system that it runs on.
ONLY_ON_WINDOWS = ("archspec", "colorama")

LAUNCHER = """
#include <windows.h>
int wmain(int count, wchar_t **words) {
    HMODULE library = LoadLibraryW(L"python%s.dll");
    int (*run)(int, wchar_t **) = library ? (void *)GetProcAddress(library, "Py_Main") : 0;
    return run ? run(count, words) : 99;
}
"""

#: What programs in Rust take their random numbers from; Wine 8 lacks it.
RANDOM_NUMBERS = """
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(void *, ULONG);
__declspec(dllexport) int ProcessPrng(void *to, size_t count) { return SystemFunction036(to, count); }
"""

#: NumPy takes functions of complex numbers from this part of Windows' C library; Wine's has none. The file
#: that has them replaces it under a name as long as its own.
MATH, OWN_MATH = "api-ms-win-crt-math-l1-1-0.dll", "crt-math-with-complex-l110.dll"
COMPLEX = re.compile(r"(creal|cimag|carg|cpow|conj|c(?:exp|log|sqrt|proj|a?(?:cos|sin|tan)h?))([fl]?)")
PAIRS = """
#include <complex.h>
typedef struct { float re, im; } float_pair;
typedef struct { double re, im; } double_pair;
"""


def main() -> int:
    """Set it up where that is not done, and run it."""
    folder, words = Path(sys.argv[1]).absolute(), sys.argv[2:]
    for program, package in (("wine", "wine64"), (COMPILER, "gcc-mingw-w64-x86-64")):
        if shutil.which(program) is None:
            print(f"{program} was not found; Debian's package is {package}", file=sys.stderr)
            return 1
    content = (ROOT / "pyproject.toml").read_text() + Path(__file__).read_text()
    stamp = folder / "ready"
    if not stamp.exists() or stamp.read_text() != content:
        set_up(folder)
        stamp.write_text(content)
    # Through a pipe: Wine 8 gives Python no file to print to.
    settings = {**os.environ, "WINEPREFIX": str(folder / "wine"), "WINEDEBUG": "-all"}
    with subprocess.Popen(
        [str(shutil.which("wine")), str(folder / "python.exe"), *words],
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    return process.returncode


def set_up(folder: Path) -> None:
    """Make the folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    site = folder / "Lib" / "site-packages"
    unpack_python(folder)
    install_packages(site)
    shutil.copy(site / "apache_tvm.libs" / "msvcp140.dll", folder)
    build(folder / "python.exe", LAUNCHER % VERSION, "-municode")
    build(folder / "bcryptprimitives.dll", RANDOM_NUMBERS, "-shared", "-ladvapi32")
    library = read(folder / f"python{VERSION}.dll")
    names = [str(each.name) for each in library.get_export().entries]
    forward(folder / "python3.dll", {name: f"python{VERSION}.{name}" for name in names})
    complete_math(folder, site)
    (site / "nnmagic.pth").write_text("Z:" + str(ROOT).replace("/", "\\"))


def pip(*words: str | Path) -> None:
    """Run pip for Windows' Python."""
    platform = ("--platform", "win_amd64", "--python-version", VERSION, "--implementation", "cp")
    abis = [word for abi in (f"cp{VERSION}", "abi3", "none") for word in ("--abi", abi)]
    quiet = ("--quiet", "--disable-pip-version-check", "--only-binary=:all:")
    subprocess.run([sys.executable, "-m", "pip", *map(str, words), *quiet, *platform, *abis], check=True)


def unpack_python(folder: Path) -> None:
    """Put Windows' libraries of Python, and a standard library, where Python looks for them."""
    without = shutil.ignore_patterns("site-packages", "lib-dynload", "test", "config-*", "__pycache__")
    shutil.copytree(sysconfig.get_path("stdlib"), folder / "Lib", ignore=without)
    with tempfile.TemporaryDirectory() as room:
        pip("download", "--no-deps", "--dest", room, "panda3d")
        with zipfile.ZipFile(next(Path(room).glob("*.whl"))) as wheel:
            names = [Path(name) for name in wheel.namelist() if name.startswith("deploy_libs/")]
            for name in names:
                if name.name.startswith("api-ms-"):  # parts of Windows, which Wine has
                    continue
                beside_python = re.fullmatch(r"(?i)(python|vcruntime).*\.dll", name.name)
                to = folder if beside_python else folder / "DLLs"
                to.mkdir(exist_ok=True)
                (to / name.name).write_bytes(wheel.read(name.as_posix()))


def install_packages(site: Path) -> None:
    """Install what nnmagic and its tests want, not nnmagic itself."""
    with tempfile.TemporaryDirectory() as room:
        build_wheel = ("wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", room)
        subprocess.run([sys.executable, "-m", "pip", *build_wheel, str(ROOT)], check=True)
        tests = f"--group={ROOT / 'pyproject.toml'}:test"
        pip("install", "--target", site, next(Path(room).glob("*.whl")), tests, *ONLY_ON_WINDOWS)
    shutil.rmtree(site / "nnmagic")  # the sources are what is tested; what describes the package stays


def build(path: Path, source: str, *options: str) -> None:
    """Compile a file of C for Windows."""
    with tempfile.TemporaryDirectory() as room:
        written = Path(room) / "source.c"
        written.write_text(source)
        words = [COMPILER, "-O1", "-static", str(written), *options, "-o", str(path)]
        subprocess.run(words, check=True)


def forward(path: Path, names: dict[str, str], source: str = "int unused;") -> None:
    """Make a library whose names are those of other ones, or functions of ``source``."""
    with tempfile.TemporaryDirectory() as room:
        listed = Path(room) / "names.def"
        listed.write_text("EXPORTS\n" + "".join(f" {name}={other}\n" for name, other in names.items()))
        build(path, source, "-shared", str(listed))


def read(path: Path) -> lief.PE.Binary:
    """Read a library; what is taken from it lives as long as this."""
    library = lief.PE.parse(path)
    assert library is not None
    return library


def complete_math(folder: Path, site: Path) -> None:
    """Give all libraries that take functions of complex numbers from Windows a library which has them."""
    names: set[str] = set()
    for path in sorted([*site.rglob("*.pyd"), *site.rglob("*.dll")]):
        data = path.read_bytes()
        if MATH.encode() not in data:
            continue
        library = read(path)
        found = {str(each.name) for part in library.imports if part.name == MATH for each in part.entries}
        if any(map(COMPLEX.fullmatch, found)):
            names |= found
            path.write_bytes(data.replace(MATH.encode(), OWN_MATH.encode()))
    functions = {name: match for name in sorted(names) if (match := COMPLEX.fullmatch(name))}
    source = PAIRS + "".join(write_function(*match.groups()) for match in functions.values())
    forwards = {name: f"own_{name}" if name in functions else f"ucrtbase.{name}" for name in sorted(names)}
    forward(folder / OWN_MATH, forwards, source)


def write_function(name: str, suffix: str) -> str:
    """Write a function of complex numbers in C as Windows calls it; a long double is a double there."""
    number, standard = ("float", f"{name}f") if suffix == "f" else ("double", name)
    pair, params = f"{number}_pair", ["a", "b"] if name == "cpow" else ["a"]
    given = ", ".join(f"__builtin_complex({param}.re, {param}.im)" for param in params)
    head = f"own_{name}{suffix}({', '.join(f'{pair} {param}' for param in params)})"
    if name in ("creal", "cimag", "carg"):
        return f"{number} {head} {{ return {standard}({given}); }}\n"
    result = f"({pair}) {{ __real__ result, __imag__ result }}"
    return f"{pair} {head} {{ {number} complex result = {standard}({given}); return {result}; }}\n"


if __name__ == "__main__":
    sys.exit(main())
