"""Define ``callback``, which calls a function of Python; the elaboration looks its function up.

Their reference: https://docs.jax.dev/en/latest/_autosummary/jax.pure_callback.html
"""

from __future__ import annotations

from nnmagic.tinynn.calls.argument_binding import Arguments, cell_function
from nnmagic.tinynn.values.values import RefusalError, Value


def _without_names(call: Arguments) -> Value:
    hint = "write callback(function, x, result=Tensor[(3,), f32]), with the function's name"
    raise RefusalError(
        "`callback` is called with the name of a function of the notebook", call.span, hint=hint
    )


CALLBACK = cell_function(
    "callback",
    "function *arguments",
    _without_names,
    "Call a function of Python, and check that it returns what `result` says.",
    form="function, *arguments, result=None, effects=False",
)
