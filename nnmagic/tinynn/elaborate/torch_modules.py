"""Call an ``nn.Module`` of the notebook: inline its ``forward``, or apply the function of PyTorch's layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from nnmagic.diagnostics import Span
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.builtins.torch_meaning import source_of_module
from nnmagic.tinynn.calls.function_calls import FunctionMaker
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.python_functions import call_python
from nnmagic.tinynn.namespace.torch_modules import attribute_of_module
from nnmagic.tinynn.namespace.torch_values import is_torch_module
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
    if not is_torch_module(module.module):
        return call_python(ctx, module, operands, callee, span, make_function)
    kind, own = type(module.module), object.__getattribute__(module.module, "__dict__")
    if any(own.get(hooks) for hooks in _HOOKS):
        message = f"`{module.path}` has hooks, and nothing of Python runs in a cell"
        raise v.RefusalError(message, callee, hint="remove them, or call it in another cell")
    if kind.__module__.startswith("torch.nn."):
        return _call_layer(module, operands, callee, span, partial(call_module, ctx), make_function)
    with source_of_module():
        return call_python(ctx, module, operands, callee, span, make_function)


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
    name, attributes = type(module.module).__name__, object.__getattribute__(module.module, "__dict__")
    infers = name in _INFERENCE or name.startswith("BatchNorm")
    if infers and attributes.get("training") and attributes.get("p") != 0:
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
    if attributes.get("padding_mode", "zeros") != "zeros":
        raise v.RefusalError(
            f"`{module.path}` pads by {attributes['padding_mode']!r}, and a cell by zeros", callee
        )
    if attributes.get("max_norm") is not None:
        raise v.RefusalError(
            f"`{module.path}` changes its weights (max_norm)", callee, hint="write embedding(i, w)"
        )
    if name.startswith("BatchNorm") and attributes["_buffers"].get("running_mean") is None:
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
