"""What is imported while the user types: TVM, but not torch; forks and the end of the process wait for it."""

import textwrap
from pathlib import Path

import pytest

from tests.child_process import run_python
from tests.systems import POSIX, WITHOUT_TORCH

CELL = "def foo(a: Tensor[(2, 3), f32]):\\n    return a + 1.0\\n"
STARTED = """
    import os, sys, threading
    from nnmagic.jupyter.preload import preload
    preload()
    threads = [thread for thread in threading.enumerate() if thread.name == "nnmagic preload"]
"""

SHELL = """
    import sys, threading, time
    from traitlets.config import Config
    from IPython.core.interactiveshell import InteractiveShell
    from nnmagic.jupyter import preload

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.push({"start": preload.preload, "shell": shell})
"""


def run(code: str, tmp_path: Path, **more: str) -> str:
    """Run a program of its own, in which every warning is an error, with an empty cache."""
    cache = str(tmp_path / "cache")
    process = run_python("-W", "error", "-c", textwrap.dedent(code), NNMAGIC_CACHE_DIR=cache, **more)
    assert not process.stderr
    return process.stdout


@pytest.mark.full
def test_a_thread_imports_what_the_first_cell_needs(tmp_path: Path) -> None:
    code = f"""{STARTED}
    preload()  # a second time, as %load_ext may be
    assert "tvm" not in sys.modules
    (thread,) = threads
    thread.join()
    needed = ["nnmagic.functions.cells.compile_cell", "tvm", "nnmagic.engine.relax.lowering.module", "synr"]
    print([name for name in needed if name not in sys.modules])
    """
    assert run(code, tmp_path).strip() == "[]"


@POSIX
def test_an_interrupt_ends_a_cell_that_waits_for_an_import(tmp_path: Path) -> None:
    code = f"""{SHELL}
    import os, signal
    shell.run_cell("start(shell)")
    owners = [getattr(each, "__self__", None) for each in shell.events.callbacks["pre_execute"]]
    (loader,) = [each for each in owners if type(each).__name__ == "_Preload"]
    loader.end()

    def import_for_long():
        with loader._importing:
            held.set()
            time.sleep(0.1)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)

    held = threading.Event()
    threading.Thread(target=import_for_long).start()
    held.wait()
    result = shell.run_cell("import time; time.sleep(20)")
    sys.stdout.write("the error: " + type(result.error_in_exec).__name__)
    """
    assert run(code, tmp_path).endswith("the error: KeyboardInterrupt")


@pytest.mark.full
def test_imports_leave_python_as_it_was(tmp_path: Path) -> None:
    """Garbage is collected again, or not, and what was hidden from TVM can be imported."""
    (tmp_path / "path" / "torch").mkdir(parents=True)
    (tmp_path / "path" / "torch" / "__init__.py").touch()
    code = f"""
    import gc
    {{change}}
    was = gc.isenabled()
    {textwrap.indent(textwrap.dedent(STARTED), "    ").strip()}
    threads[0].join()
    assert gc.isenabled() == was
    assert "tvm" in sys.modules and "torch" not in sys.modules
    sys.path.insert(0, {str(tmp_path / "path")!r})
    import torch
    print(was)
    """
    assert run(code.format(change=""), tmp_path).strip() == "True"
    assert run(code.format(change="gc.disable()"), tmp_path).strip() == "False"


@pytest.mark.full
def test_tvm_has_what_it_has_without_nnmagic(tmp_path: Path) -> None:
    """Disco, TVM's distributed run-time, is hidden where its library has none; no function is missing."""
    asked = """\
import sys
print(sorted(vars(tvm.runtime)), tvm.runtime.disco is None)
print(sys.modules["tvm_ffi.registry"].list_global_func_names.__qualname__)
modules = {name: each for name, each in sys.modules.items() if name.endswith("_ffi_api")}
print({name: sorted(vars(each)) for name, each in modules.items() if "disco" not in name})
"""
    imported = "from nnmagic.engine import relax; relax.preload_compiler()"
    alone, after = (run(f"{begin}\nimport tvm\n{asked}", tmp_path) for begin in ("", imported))
    assert alone == after


@pytest.mark.full
def test_the_first_cell_imports_nothing_of_nnmagic_more(tmp_path: Path) -> None:
    """Neither one that is compiled nor, in the next kernel, one that is on disk."""
    code = f"""{SHELL}
    shell.run_cell("%load_ext nnmagic\\nstart(shell)")
    preload._preload._thread.join()
    before = set(sys.modules)
    shell.run_cell("%%tinynn\\n{CELL}")
    assert "foo" in shell.user_ns
    print("missing:", [name for name in set(sys.modules) - before if name.startswith(("nnmagic", "tvm"))])
    """
    for _ in range(2):
        shown = run(code, tmp_path, IPYTHONDIR=str(tmp_path / "ipython"))
        assert shown.splitlines()[-1] == "missing: []"


@pytest.mark.full
def test_the_compiler_is_left_out_where_code_is_on_disk(tmp_path: Path) -> None:
    run(f'import nnmagic; nnmagic.compile("{CELL}", namespace={{}})', tmp_path)
    code = f"""{STARTED}
    threads[0].join()
    print("tvm_ffi" in sys.modules, "tvm" in sys.modules)
    """
    assert run(code, tmp_path).split() == ["True", "False"]


@pytest.mark.full
@POSIX
def test_a_fork_waits_and_the_child_compiles(tmp_path: Path) -> None:
    """-W error makes an error of the warning about a fork while another thread imports."""
    code = f"""{STARTED}
    child = os.fork()
    import nnmagic, numpy as np
    foo = nnmagic.compile("{CELL}", namespace={{}})
    assert (foo(np.zeros((2, 3), "f4")) == 1).all()
    if child == 0:
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), threads[0].is_alive())
    """
    assert run(code, tmp_path).split() == ["0", "False"]


@pytest.mark.full
def test_nothing_is_imported_while_a_cell_runs(tmp_path: Path) -> None:
    """A cell that imports a package of which a thread imports a module gets Python's DeadlockError."""
    code = f"""{SHELL}
    shell.run_cell("import sys, time; start(shell); time.sleep(0.7)")
    print("nnmagic.functions.cells.compile_cell" in sys.modules)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "nnmagic preload"]
    thread.join()
    print("nnmagic.functions.cells.compile_cell" in sys.modules)
    """
    assert run(code, tmp_path, IPYTHONDIR=str(tmp_path / "ipython")).split() == ["False", "True"]


def test_a_cell_that_another_one_runs_does_not_end_it(tmp_path: Path) -> None:
    """`%run` of a notebook runs cells in a cell."""
    code = f"""{SHELL}
    shell.run_cell("import sys, time; start(shell); shell.run_cell('1'); time.sleep(0.7)")
    print("nnmagic.functions.cells.compile_cell" in sys.modules)
    preload._preload.end()
    """
    assert run(code, tmp_path, IPYTHONDIR=str(tmp_path / "ipython")).split()[-1] == "False"


def test_a_shell_may_load_it_from_code_without_a_module(tmp_path: Path) -> None:
    code = f"""{SHELL}
    exec("start(shell)", {{"start": preload.preload, "shell": shell}})
    preload._preload.end()
    """
    assert run(code, tmp_path, IPYTHONDIR=str(tmp_path / "ipython")) == ""


@pytest.mark.full
def test_a_cell_waits_for_the_end_of_an_import(tmp_path: Path) -> None:
    code = f"""{SHELL}
    begun, events = threading.Event(), []

    def slow(name):
        events.append("begin")
        begun.set()
        time.sleep(0.5)
        events.append("end")

    preload.import_module = slow
    shell.run_cell("start(shell)")
    begun.wait()
    shell.push({{"events": events}})
    shell.run_cell("print(*events)")
    preload._preload.end()
    """
    assert run(code, tmp_path, IPYTHONDIR=str(tmp_path / "ipython")).split() == ["begin", "end"]


def test_the_process_may_end_at_once(tmp_path: Path) -> None:
    assert run(STARTED, tmp_path) == ""


@pytest.mark.full
@WITHOUT_TORCH
def test_torch_is_not_imported_and_can_be_afterwards(tmp_path: Path) -> None:
    """It takes a second or more; tvm_ffi and TVM import it where it is installed."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("print('torch is imported')\n")
    code = f"""
    import sys
    sys.path.append({str(tmp_path)!r})
    import nnmagic, numpy as np
    foo = nnmagic.compile("{CELL}", namespace={{}})
    assert (foo(np.zeros((2, 3), "f4")) == 1).all()
    assert foo.stages["tir"]
    print("tvm" in sys.modules, "torch" in sys.modules)
    import torch
    """
    assert run(code, tmp_path).splitlines() == ["True False", "torch is imported"]


def test_a_setting_turns_it_off(tmp_path: Path) -> None:
    code = """
    import sys, threading
    from traitlets.config import Config
    from IPython.terminal.interactiveshell import TerminalInteractiveShell
    sys.stdin.isatty = lambda: True
    names = []
    for wanted in (False, True):
        config = Config({"TinyNNMagics": {"preload": wanted}})
        config.HistoryManager.enabled = False
        shell = TerminalInteractiveShell.instance(config=config)
        shell.extension_manager.load_extension("nnmagic")
        names.append("nnmagic preload" in [thread.name for thread in threading.enumerate()])
        TerminalInteractiveShell.clear_instance()
    print(*names)
    """
    assert run(code, tmp_path, IPYTHONDIR=str(tmp_path / "ipython")).split()[-2:] == ["False", "True"]
