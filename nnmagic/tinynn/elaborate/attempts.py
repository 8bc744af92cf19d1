"""Elaborate a statement in one of several ways: what an abandoned attempt did is undone."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from nnmagic.diagnostics import Diagnostics
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.control_flow_blocks import Terminator
from nnmagic.tinynn.values.values import RefusalError


class GivenUp(Enum):
    """The result of an attempt that was given up."""

    GIVEN_UP = "given up"


class GiveUpError(Exception):
    """Raised to give up the attempt that it was created for."""


def attempt(
    ctx: Elaboration,
    elaborate: Callable[[], Terminator | None],
    give_up: GiveUpError,
    accept: Callable[[Terminator | None], bool] | None = None,
) -> Terminator | GivenUp | None:
    """Elaborate, and keep the result; GivenUp, with everything as before, if ``give_up`` is raised.

    With ``accept``, which decides after the elaboration whether it is kept, a refusal gives up, too.
    """
    tried = ctx.observe is not None and not ctx.trials
    end = _attempt(ctx, elaborate, give_up, accept, tried=tried)
    if isinstance(end, GivenUp) or not tried:
        return end
    return _attempt(ctx, elaborate, give_up, None, tried=False)  # once more, for the observer


def _attempt(
    ctx: Elaboration,
    elaborate: Callable[[], Terminator | None],
    give_up: GiveUpError,
    accept: Callable[[Terminator | None], bool] | None,
    *,
    tried: bool,
) -> Terminator | GivenUp | None:
    saved = [(environment.bindings, environment.bindings.copy()) for environment in ctx.environment.chain()]
    state = (ctx.environment.failed, set(ctx.reported), ctx.live)
    let_count, work = len(ctx.block.lets), ctx.work
    diagnostics, ctx.diagnostics = ctx.diagnostics, Diagnostics()
    ctx.trials += tried
    end: Terminator | GivenUp | None
    try:
        end = elaborate()
        if accept is not None and not accept(end):
            end = GivenUp.GIVEN_UP
    except GiveUpError as error:
        if error is not give_up:
            raise
        end = GivenUp.GIVEN_UP
    except RefusalError:
        if accept is None:
            raise
        end = GivenUp.GIVEN_UP
    finally:
        ctx.trials -= tried
        errors, ctx.diagnostics = ctx.diagnostics.errors, diagnostics
    if tried or isinstance(end, GivenUp):
        for bindings, copy in saved:
            bindings.restore(copy)
        del ctx.block.lets[let_count:]
        ctx.environment.failed, ctx.reported, ctx.live = state
        if ctx.unroll_budget is not None:
            limit, whole = ctx.unroll_budget
            ctx.unroll_budget = (limit + ctx.work - work, whole)
        return end
    for diagnostic in errors:
        ctx.diagnostics.add(diagnostic)
    return end
