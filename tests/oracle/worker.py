"""Real Relay as the judge. Runs in an environment that has ``tvm.relay``; knows nothing of nnmagic.

Reads one JSON object a line from standard input and answers one a line on standard output. ``text``: a
module; the answer has ``typed``, what Relay prints after parsing and type inference, or ``error``. With
``inputs`` (the path of an npz file of arrays ``0``, ``1``, ..., bfloat16 as uint16), ``dtypes`` (one an
array) and ``arguments`` (indexes of arrays, one a parameter, lists of them for tuples) the program also runs:
``outputs`` is the path of an npz file, or ``run_error`` says why not.
"""

import json
import os
import sys

import numpy as np
import tvm
from tvm import relay
from tvm.ir import diagnostics
from tvm.runtime.container import ADT

TARGET = tvm.target.Target("llvm -mtriple=x86_64-unknown-linux-gnu")


def answer(request):
    """One request's answer; an error of Relay's is an answer, too."""
    problems = []
    diagnostics.override_renderer(
        lambda context: problems.extend(each.message for each in context.diagnostics)
    )
    try:
        module = relay.parse(request["text"])
        reply = {"typed": module.astext(show_meta_data=False)}
    except Exception as error:  # noqa: BLE001 - whatever real Relay raises is its answer
        reason = "; ".join(problems) or f"{type(error).__name__}: {error}"
        return {"error": reason[-2000:]}
    if "inputs" in request:
        try:
            reply["outputs"] = run(module, request)
        except Exception as error:  # noqa: BLE001 - the same
            reply["run_error"] = f"{type(error).__name__}: {error}"[-2000:]
    return reply


def run(module, request):
    """Runs @main on Relay's virtual machine, which takes everything."""
    # A chain of tanh that is fused becomes one expression, exponential in its length. SimplifyExpr makes of
    # add(x, x), where x is used again, what the next pass refuses.
    config = {"relay.FuseOps.max_depth": 2}
    with tvm.transform.PassContext(opt_level=3, config=config, disabled_pass=["SimplifyExpr"]):
        executable = relay.vm.compile(module, target=TARGET)
    with np.load(request["inputs"]) as stored:
        arrays = [tensor(stored[str(index)], dtype) for index, dtype in enumerate(request["dtypes"])]
    machine = tvm.runtime.vm.VirtualMachine(executable, tvm.cpu())
    outputs = flat(machine.invoke("main", *(argument(each, arrays) for each in request["arguments"])))
    path = request["inputs"].removesuffix(".npz") + ".out.npz"
    np.savez(path, **{str(index): array for index, array in enumerate(outputs)})
    return path


def tensor(array, dtype):
    """The array in TVM's memory."""
    made = tvm.nd.empty(array.shape, dtype)
    if array.size:
        made.copyfrom(array)
    return made


def argument(reference, arrays):
    """What ``reference`` stands for: an array by its index, or a tuple."""
    return (
        ADT(0, [argument(each, arrays) for each in reference])
        if isinstance(reference, list)
        else arrays[reference]
    )


def flat(value):
    """The arrays of a result, laid flat; a value of a data type begins with its constructor's tag."""
    if isinstance(value, tvm.nd.NDArray):
        return [value.numpy()]
    tag = [np.int64(value.tag & 0xFFFFFF)] if value.tag else []
    return tag + [array for index in range(len(value)) for array in flat(value[index])]


def main():
    """Answers on the real standard output; what TVM's C++ prints goes nowhere."""
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    replies.write(json.dumps({"version": tvm.__version__}) + "\n")
    for line in sys.stdin:
        replies.write(json.dumps(answer(json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
