"""Judge Relay programs of steps: an engine gives the values that the reference has in the widest dtypes."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np

from nnmagic.diagnostics import CompileError
from nnmagic.engine.arguments import Parameter, convert_argument
from nnmagic.engine.numpy import Interpreter
from nnmagic.engine.relax import build
from nnmagic.relay.infer import infer_type
from nnmagic.relay.text.parser import parse_module
from tests.engine.relax.codegen.targets import OLDER
from tests.random_programs.environment import Value
from tests.random_programs.judges import Fault, Verdict, compare, differ
from tests.random_programs.program import Program, seeded
from tests.random_programs.relay_text import module_of
from tests.random_programs.steps import Steps


def compare_machine_code(program: Program, verdict: Verdict) -> None:
    """Compare what compiled code computes, of arguments in unusual memory."""
    steps = program.steps
    assert steps is not None
    module = module_of(steps)
    executable = build(
        module, "main", target=steps.options.get("target"), opt_level=steps.options.get("opt_level", 3)
    )
    chance = seeded("memory", program.seed)
    params = module.functions["main"].params
    for call in _judged_calls(steps):
        dims: dict[str, int] = {}
        try:
            given = [
                convert_argument(Parameter(param.name_hint, param.checked_type), unusual(array, chance), dims)
                for param, array in zip(params, steps.given(call), strict=True)
            ]
            found = executable(given)
        except ValueError as error:
            if call and is_refused_with_static_sizes(steps, call):
                verdict.count("refused", "calls")
                continue
            raise ValueError(f"call {call}: {error}") from error
        if _differs(program, steps, found, call, verdict):
            return


def compare_reference(program: Program, verdict: Verdict) -> None:
    """Compare what the engine numpy computes in the dtypes of the program."""
    steps = program.steps
    assert steps is not None
    interpreter = Interpreter(module_of(steps))
    for call in _judged_calls(steps):
        if _differs(program, steps, interpreter.run("main", steps.given(call)), call, verdict):
            return


def compare_text(program: Program, verdict: Verdict) -> None:
    """Compare what compiled code of Relay text computes, for all targets and levels, with the reference."""
    module = infer_type(parse_module(program.source))
    wanted = [Interpreter(module).run("main", arguments) for arguments in program.calls]
    for target, level in itertools.product((None, OLDER), (0, 3)):
        executable = build(module, "main", target=target, opt_level=level)
        for arguments, expected in zip(program.calls, wanted, strict=True):
            if difference := differ(executable(list(arguments)), expected, program):
                verdict.faults.append(
                    Fault(difference.partition("\n")[0], f"{target}, {level}: {difference}", program)
                )
                return
            verdict.count("equal", "calls")


def _judged_calls(steps: Steps) -> list[int]:
    """Return the calls that have a value for every statement."""
    raises = {call for each in steps.statements for call, error in enumerate(each.raises) if error}
    values = [steps.values[each.name] for each in steps.statements if each.name in steps.values]
    return [
        call
        for call in steps.calls()
        if call not in raises and all(each.arrays[call] is not None for each in values)
    ]


def _differs(program: Program, steps: Steps, found: object, call: int, verdict: Verdict) -> bool:
    returned = steps.returned
    parts = found if isinstance(found, tuple) and len(returned) > 1 else (found,)
    for statement, part in zip(returned, parts, strict=True):
        if statement.name not in steps.values:
            continue  # a tuple, whose parts are judged
        wanted = steps.values[statement.name].arrays[call]
        assert isinstance(part, np.ndarray | np.generic)
        assert wanted is not None
        scale = 1.0 + float(np.abs(wanted).max(initial=0)) if program.rules.rtol else 0.0
        difference = compare(part, wanted, rtol=program.rules.rtol, scale=scale)
        if difference:
            kind, _, numbers = difference.partition("\n")
            detail = f"{steps.options}, call {call}, {statement.name}: {numbers}"
            verdict.faults.append(Fault(f"{statement.function}: {kind}", detail, program, statement.name))
            return True
        verdict.count("compared", statement.function)
    return False


def unusual(array: np.ndarray, chance: random.Random) -> np.ndarray:
    """Return the same values in memory that is not contiguous, not aligned, backwards or read-only."""
    match chance.randrange(7):
        case 0 if array.ndim:
            return np.asfortranarray(array)
        case 1 if array.ndim:
            return np.ascontiguousarray(array[::-1])[::-1]
        case 2 if array.ndim:
            return np.repeat(array, 2, -1)[..., ::2]
        case 3:
            memory = np.zeros(array.nbytes + 1, "u1")[1:]
            view = memory.view(array.dtype) if array.size else array.ravel()
            view[:] = array.ravel()
            return view.reshape(array.shape)
        case 4:
            array = array.copy()
            array.flags.writeable = False
    return array


def is_refused_with_static_sizes(steps: Steps, call: int) -> bool:
    """Whether the steps are refused, too, where the types of the parameters say the sizes of a call."""

    def known(value: Value) -> Value:
        array = value.arrays[call]
        assert array is not None
        return replace(value, dims=tuple(array.shape))

    try:
        build(module_of(replace(steps, params=tuple(map(known, steps.params)))), "main")
    except CompileError:
        return True
    return False
