"""The kernel that tests of notebooks share: a module gets it as new."""

from __future__ import annotations

from tests.kernels import Kernel, plain

STATE = (
    "import os, sys\nshell = get_ipython()\n"
    "(shell.execution_count, {*shell.user_ns} & {'x', '_oh', 'np'}, shell.find_cell_magic('tinynn'),"
    " sorted(os.environ), os.getcwd(), sys.path, dict(shell.config),"
    " {event: len(each) for event, each in shell.events.callbacks.items()},"
    " len(shell.input_transformers_cleanup),"
    " [each for each in shell.configurables if 'TinyNN' in type(each).__name__],"
    " len(shell.Completer.custom_matchers))"
)
CHANGES = (
    "%load_ext nnmagic\n%config TinyNNMagics.opt_level = 1\nimport os, sys\nimport numpy as np\nx = 1",
    "os.environ['NNMAGIC_CACHE_MB'] = '1'\nos.chdir('..')\nsys.path.insert(0, 'x')",
    "get_ipython().events.register('pre_run_cell', lambda info: None)",
    "%%tinynn -q\ndef f(x: f32):\n    return x",
    "1 / 0",
)


def test_nothing_of_a_module_is_left_for_the_next(kernel: Kernel) -> None:
    before = plain(kernel.run(STATE))
    for code in CHANGES:
        kernel.run(code, allow_errors=True)
    changed = plain(kernel.run(STATE))
    kernel.renew()
    assert plain(kernel.run(STATE)) == before != changed
    kernel.run("%load_ext nnmagic")
    assert plain(kernel.run("%config TinyNNMagics.opt_level")) == "3"
    kernel.run("%%tinynn -q\ndef f(x: f32):\n    return x")
    assert plain(kernel.run("f.cache_info.hit in (None, 'disk')")) == "True", "not in memory"
