"""No `except` decides how a program runs: `engine/relax/codegen/program_plan` asks what the program has."""

from __future__ import annotations

from pathlib import Path

from tests.handlers import handlers_in

ENGINE = Path(__file__).parents[2] / "nnmagic" / "engine"

#: The handlers after which the engine goes on, by file and function, with what they are there for.
SWORN = {
    "arguments _contradiction": "an expression of sizes is no polynomial: the error says less",
    "cpu _read_cpuinfo": "a system without this file",
    "relax/compiler_server serve": "an error of the program, which the other process raises",
    "relax/deferred_interrupts _leave_threads_alone": "a system without this function of C",
    "relax/deferred_interrupts _release_import_lock": "a lock that the thread does not hold",
    "foreign_arrays _from_dlpack": "a library that exports its arrays in another way",
    "foreign_arrays importer_of": "asks whether a library exports an array",
    "legacy_relay/executable LegacyExecutable.__call__": "no machine is idle",
    "legacy_relay/text for_relay": "a text that real Relay does not read: the order is said by lets",
    "numpy/interpreter Interpreter._operator": "raises the error with its line",
    "numpy/interpreter _run": "a generator that returns",
    "relax/analysis/attention _evaluate": "a constant that the reference refuses is none",
    "relax/analysis/cell_layout CellLayouts.why_not": "asks beforehand; what is raised is the reason",
    "relax/analysis/data_types why_interpreted": "asks beforehand; what is raised is the reason",
    "relax/analysis/dim_labels size_of": "asks whether a dimension is a polynomial of known ones",
    "relax/codegen/aot/lane_plans plan_lanes": "ends the walk of an analysis: the rounds are no lanes",
    "relax/codegen/cuda _attempt": "TVM's rules for GPUs are tried in turn; it says not beforehand which fit",
    "relax/codegen/cuda_compiler _nvrtc": "a library that is not there",
    "relax/legalize/kernel_cache has_reshape_order": "TVM cannot divide by each size",
    "relax/legalize/sizes exact_quotient": "asks whether a size is a polynomial",
    "relax/legalize/sizes normal_form": "asks whether a size is a polynomial",
    "relax/lowering/module lower_module": "an assumption about sizes that a call contradicts is dropped",
    "relax/lowering/shape_checks emit_shape_check": "refuses the call with the relation's message",
    "relax/runtime/callbacks _answers": "what a signal raises ends machine code, and is raised then",
    "relax/runtime/callbacks _shapes_fit_native": "a failed check ends machine code, and is raised then",
    "relax/runtime/compiled_program CheckedExecutable.fast_path": "arguments that need a look",
    "relax/runtime/cuda_device missing_runtime": "asks whether CUDA is here",
    "relax/runtime/cuda_executable CudaExecutable.__call__": "frees the pool, and tries again",
    "relax/runtime/ffi read_debugging_data": "an error that is made on purpose",
    "relax/runtime/native_entry NativeEntry._start": "raises what TVM raised as the error of a call",
    "relax/runtime/native_entry NativeEntry.borrow_workspace": "no workspace is idle",
    "relax/runtime/native_entry NativeEntry.finish": "what was left is freed before it is raised",
    "relax/runtime/prover_signals keep_handler": "a system without this function of C",
    "relax/runtime/thread_pool _wait_for_end": "stops the work, then raises",
    "relax/runtime/thread_pool run_into": "the waiting thread raises it",
    "relax/runtime/thread_pool wait_without_interrupts.defer": "stops the work, then raises",
    "relax/runtime/ufunc _float_flags": "a system without this function of C",
    "target_kind is_cuda": "a target that is not JSON, which the compiler refuses",
}


def test_no_handler_decides_how_a_program_runs() -> None:
    assert handlers_in(ENGINE) == SWORN.keys()
