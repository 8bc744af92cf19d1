"""Call an ``nn.Module`` of the notebook: inline its ``forward``, or apply the function of PyTorch's layer."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from functools import partial

import attr

from nnmagic.diagnostics import Diagnostics, Note, Source, Span
from nnmagic.tinynn.analysis.bound_names import find_local_names, find_mentioned_names
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.builtins.torch_meaning import source_of_module
from nnmagic.tinynn.calls.function_calls import FunctionMaker
from nnmagic.tinynn.elaborate.closures import inline_call
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.namespace.lookup import look_up
from nnmagic.tinynn.namespace.torch_modules import attribute_of_module
from nnmagic.tinynn.program import MISSING
from nnmagic.tinynn.syntax import parse, tree
from nnmagic.tinynn.values import values as v

_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


def call_module(
    ctx: Elaboration,
    module: v.ModuleOf,
    operands: list[v.Operand],
    callee: Span,
    span: Span,
    make_function: FunctionMaker,
) -> v.Value:
    """Return the result of a module, or of one of its methods. Raises RefusalError."""
    kind, own = type(module.module), object.__getattribute__(module.module, "__dict__")
    if any(own.get(hooks) for hooks in _HOOKS):
        message = f"`{module.path}` has hooks, and nothing of Python runs in a cell"
        raise v.RefusalError(message, callee, hint="remove them, or call it in another cell")
    if kind.__module__.startswith("torch.nn."):
        return _call_layer(module, operands, callee, span, partial(call_module, ctx), make_function)
    function = ctx.methods.get((id(module.module), module.method))
    if function is None:
        function = _method(ctx, module, callee)
        ctx.methods[id(module.module), module.method] = function
    assert isinstance(function, v.LocalFunction)
    with source_of_module():
        return inline_call(ctx, function, [v.Operand(module, callee), *operands], callee, span, make_function)


# -- modules of the notebook ---------------------------------------------------------------------------


def _method(ctx: Elaboration, module: v.ModuleOf, callee: Span) -> v.LocalFunction:
    """Return a method as a function to inline. Raises RefusalError where the language lacks its source."""
    name = f"{type(module.module).__name__}.{module.method}"
    method = inspect.getattr_static(type(module.module), module.method, None)
    if not isinstance(method, types.FunctionType):
        raise v.RefusalError(f"{name} is no function that is written in Python", callee)
    if method.__closure__:
        hint = "define the class at the top of a cell, and give it what it needs as attributes"
        raise v.RefusalError(f"{name} uses names of a function around it, or super()", callee, hint=hint)
    source, diagnostics = _source(method, name, callee), Diagnostics()
    cell = parse(source, diagnostics, methods=True)
    for error in diagnostics.errors:
        notes = () if error.span is None else (Note(f"in {name}: {error.message}", error.span),)
        message = f"{name} is not within the language of a cell: {error.message}"
        raise v.RefusalError(message, callee, hint=error.hint, notes=notes)
    assert cell is not None
    definition = next(iter(cell.funcs.values()))
    params = [attr.evolve(parameter, ty=None) for parameter in definition.params]
    definition = attr.evolve(definition, params=params, ret_type=None)
    ctx.other_sources.append(source)
    _check_names(ctx, definition, method, name, callee)
    formals = tuple(
        v.Formal(each.name, each.kind, None if each.default is None else ctx.evaluate(each.default))
        for each in params
    )
    return v.LocalFunction(name, definition, formals, v.Environment(""), {})


def _source(method: types.FunctionType, name: str, callee: Span) -> Source:
    try:
        lines, first_line = inspect.getsourcelines(method)
    except (OSError, TypeError):
        hint = "define the class in a cell of this notebook"
        raise v.RefusalError(f"the source of {name} cannot be read", callee, hint=hint) from None
    if lines[0].lstrip().startswith("@"):
        hint = "leave the decorator out, or call it in another cell"
        raise v.RefusalError(f"{name} has a decorator, which a cell cannot run", callee, hint=hint)
    indent = len(lines[0]) - len(lines[0].lstrip())
    text = "".join(line[indent:] if not line[:indent].strip() else line for line in lines)
    return Source(method.__code__.co_filename, text, first_line, indent)


def _check_names(
    ctx: Elaboration,
    definition: tree.DefinitionNode,
    method: types.FunctionType,
    name: str,
    callee: Span,
) -> None:
    """Raise RefusalError for a free name that is another in the module's file than in the notebook.

    Libraries that the file imports, and their functions, need not be imported by the notebook.
    """
    own = {parameter.name for parameter in definition.params} | find_local_names(definition.body)
    for free in sorted(find_mentioned_names(definition.body) - own):
        there = method.__globals__.get(free, MISSING)
        here = look_up(ctx.resolver.namespace, free)
        if here is MISSING and _is_of_library(there):
            here = ctx.resolver.imported.setdefault(free, there)
        if there is not MISSING and here is not there:
            what = "is not defined in the notebook" if here is MISSING else "is another in the notebook"
            message = f"{name} uses `{free}`, which {what}"
            raise v.RefusalError(
                message, callee, hint=f"give the notebook the `{free}` of {method.__module__}"
            )


def _is_of_library(value: object) -> bool:
    """Return whether a value is a module that a cell knows, or a function of one."""
    named = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return isinstance(named, str) and named.partition(".")[0] in ("math", "numpy", "torch")


# -- layers of PyTorch ---------------------------------------------------------------------------------

#: The function of a layer, and the keywords of its arguments, each with the member that it holds.
_LAYERS: Mapping[str, tuple[str, str]] = {
    "Linear": ("linear", "weight bias"),
    "Bilinear": ("bilinear", "weight bias"),
    **{
        f"Conv{rank}d": (f"conv{rank}d", "weight bias strides=stride padding dilation groups")
        for rank in (1, 2, 3)
    },
    **{
        f"ConvTranspose{rank}d": (
            f"conv_transpose{rank}d",
            "weight bias strides=stride padding output_padding groups dilation",
        )
        for rank in (1, 2, 3)
    },
    **{f"BatchNorm{rank}d": ("batch_norm", "running_mean running_var weight bias eps") for rank in (1, 2, 3)},
    "LayerNorm": ("layer_norm", "normalized_shape weight bias eps"),
    "RMSNorm": ("rms_norm", "normalized_shape weight eps"),
    "GroupNorm": ("group_norm", "num_groups weight bias eps"),
    "Embedding": ("embedding", "weight"),
    **{
        f"MaxPool{rank}d": (
            f"max_pool{rank}d",
            "kernel_size strides=stride padding dilation ceil_mode return_indices",
        )
        for rank in (1, 2, 3)
    },
    **{
        f"AvgPool{rank}d": (
            f"avg_pool{rank}d",
            "kernel_size strides=stride padding ceil_mode count_include_pad",
        )
        for rank in (1, 2, 3)
    },
    **{
        f"Adaptive{kind}Pool{rank}d": (f"adaptive_{kind.lower()}_pool{rank}d", "output_size")
        for kind in ("Max", "Avg")
        for rank in (1, 2, 3)
    },
    **{
        name: (name.lower(), "")
        for name in ("ReLU", "ReLU6", "SiLU", "Mish", "Sigmoid", "LogSigmoid", "Tanh", "Hardsigmoid")
    },
    **{name: (name.lower(), "") for name in ("Hardswish", "Softsign", "SELU")},
    "GELU": ("gelu", "approximate"),
    "LeakyReLU": ("leaky_relu", "negative_slope"),
    "ELU": ("elu", "alpha"),
    "Softplus": ("softplus", "beta threshold"),
    "PReLU": ("prelu", "weight"),
    "Softmax": ("softmax", "axis=dim"),
    "LogSoftmax": ("log_softmax", "axis=dim"),
    "Flatten": ("flatten", "start_dim end_dim"),
    "PixelShuffle": ("pixel_shuffle", "upscale_factor"),
    "Unfold": ("unfold", "kernel_size dilation padding stride"),
    "Fold": ("fold", "output_size kernel_size dilation padding stride"),
}
#: Layers that drop nothing, or normalize by running statistics, after ``model.eval()`` alone.
_INFERENCE = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")


def _call_layer(
    module: v.ModuleOf,
    operands: list[v.Operand],
    callee: Span,
    span: Span,
    call: Callable[..., v.Value],
    make_function: FunctionMaker,
) -> v.Value:
    """Return the result of a layer of PyTorch. Raises RefusalError."""
    name, own = type(module.module).__name__, object.__getattribute__(module.module, "__dict__")
    infers = name in _INFERENCE or name.startswith("BatchNorm")
    if infers and own.get("training") and own.get("p") != 0:
        message = f"`{module.path}` is a {name} that trains, and a compiled function infers"
        raise v.RefusalError(message, callee, hint="call model.eval() in another cell first")
    if name in (*_INFERENCE, "Identity"):
        return operands[0].value
    if name == "Sequential":
        return _call_in_turn(module, operands, callee, span, call, make_function)
    if name not in _LAYERS or module.method != "forward":
        hint = "write what it computes with functions, as in linear(x, layer.weight, layer.bias)"
        raise v.RefusalError(
            f"`{module.path}` is torch's {name}, which a cell cannot inline", callee, hint=hint
        )
    if own.get("padding_mode", "zeros") != "zeros":
        raise v.RefusalError(f"`{module.path}` pads by {own['padding_mode']!r}, and a cell by zeros", callee)
    if own.get("max_norm") is not None:
        raise v.RefusalError(
            f"`{module.path}` changes its weights (max_norm)", callee, hint="write embedding(i, w)"
        )
    if name.startswith("BatchNorm") and own["_buffers"].get("running_mean") is None:
        raise v.RefusalError(f"`{module.path}` has no running statistics", callee)
    function, members = _LAYERS[name]
    given = list(operands)
    for word in members.split():
        keyword, _, member = word.partition("=")
        value = attribute_of_module(module, member or keyword, callee)
        if value != v.Known(None):
            given.append(v.Operand(value, callee, keyword))
    return v.BuiltinName(BUILTINS[function]).builtin.call(given, span)


def _call_in_turn(
    module: v.ModuleOf,
    operands: list[v.Operand],
    callee: Span,
    span: Span,
    call: Callable[..., v.Value],
    make_function: FunctionMaker,
) -> v.Value:
    inner = object.__getattribute__(module.module, "__dict__")["_modules"]
    value = operands
    for key in inner:
        each = attribute_of_module(module, key, callee)
        assert isinstance(each, v.ModuleOf)
        result = call(each, value, callee, span, make_function)
        if v.is_failed(result):
            return result
        value = [v.Operand(result, span)]
    return value[0].value
