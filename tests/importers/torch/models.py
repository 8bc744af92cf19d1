"""Run models of torchvision and transformers, with random weights, and count what passes.

``python -m tests.importers.torch.models [--import-only] [name ...]``. Nothing is downloaded: the models of
transformers are made of configurations.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

# Where torchvision's own kernels do not fit this torch, it still wants to know those that it describes.
LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, _name):
        LIBRARY.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

#: torchvision's networks, with the size of their images.
VISION = {
    **dict.fromkeys(("alexnet", "vgg11"), 64),
    **dict.fromkeys(("resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2"), 64),
    **dict.fromkeys(
        ("mobilenet_v2", "mobilenet_v3_small", "mnasnet0_5", "efficientnet_b0", "regnet_x_400mf"), 64
    ),
    **dict.fromkeys(("densenet121", "squeezenet1_1", "shufflenet_v2_x0_5", "convnext_tiny"), 64),
    "googlenet": 64,
    "inception_v3": 96,
    "vit_b_32": 64,
    "swin_t": 64,
    "swin_v2_t": 64,
    "maxvit_t": 224,
    **dict.fromkeys(
        (
            "segmentation.fcn_resnet50",
            "segmentation.deeplabv3_resnet50",
            "segmentation.lraspp_mobilenet_v3_large",
        ),
        64,
    ),
    "video.r3d_18": 32,
}
_SMALL = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
}
#: transformers' configurations, as (class of the configuration, class of the model, settings).
TEXT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertConfig", "BertModel", _SMALL),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertModel",
        {"vocab_size": 99, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37},
    ),
    "roberta": ("RobertaConfig", "RobertaModel", _SMALL),
    "albert": ("AlbertConfig", "AlbertModel", {**_SMALL, "embedding_size": 16}),
    "electra": ("ElectraConfig", "ElectraModel", {**_SMALL, "embedding_size": 16}),
    "gpt2": (
        "GPT2Config",
        "GPT2LMHeadModel",
        {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    ),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", _SMALL),
    "opt": (
        "OPTConfig",
        "OPTForCausalLM",
        {
            "vocab_size": 99,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 37,
            "word_embed_proj_dim": 32,
            "max_position_embeddings": 64,
        },
    ),
    "llama": ("LlamaConfig", "LlamaForCausalLM", {**_SMALL, "num_key_value_heads": 2}),
    "mistral": ("MistralConfig", "MistralForCausalLM", {**_SMALL, "num_key_value_heads": 2}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {**_SMALL, "num_key_value_heads": 2}),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", {**_SMALL, "num_key_value_heads": 2, "head_dim": 8}),
    "phi": ("PhiConfig", "PhiForCausalLM", _SMALL),
    "bloom": (
        "BloomConfig",
        "BloomForCausalLM",
        {"vocab_size": 99, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    ),
    "t5": (
        "T5Config",
        "T5EncoderModel",
        {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4},
    ),
    "vit": (
        "ViTConfig",
        "ViTModel",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 37,
            "image_size": 32,
            "patch_size": 8,
        },
    ),
    "clip_vision": (
        "CLIPVisionConfig",
        "CLIPVisionModel",
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 37,
            "image_size": 32,
            "patch_size": 8,
        },
    ),
}
_IMAGES = ("vit", "clip_vision")


class _Logits(torch.nn.Module):
    """A model of transformers that returns its first tensor only."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        result = self.model(data, return_dict=True)
        return result.logits if "logits" in result else result.last_hidden_state


def make(name: str) -> tuple[torch.nn.Module, torch.Tensor]:
    """A model by name, and an argument for it."""
    torch.manual_seed(0)
    if name in VISION:
        import torchvision

        maker: Any = torchvision.models
        for part in name.split("."):
            maker = getattr(maker, part)
        options: dict[str, Any] = {"weights": None}
        if "segmentation" in name:
            options["weights_backbone"] = None
        if name in ("googlenet", "inception_v3"):
            options["init_weights"] = True
        if name == "vit_b_32":
            options["image_size"] = 64
        shape = (
            (2, 3, 4, VISION[name], VISION[name]) if "video" in name else (2, 3, VISION[name], VISION[name])
        )
        return maker(**options).eval(), torch.randn(shape)
    import transformers

    config, kind, settings = TEXT[name]
    model = getattr(transformers, kind)(getattr(transformers, config)(**settings)).eval()
    if name in _IMAGES:
        return _Logits(model), torch.randn(2, 3, 32, 32)
    return _Logits(model), torch.randint(0, 99, (2, 7))


def check(name: str, *, import_only: bool = False) -> str:
    """Import, compile and run a model; return "passes" or what went wrong."""
    from nnmagic.functions.from_torch import from_torch
    from nnmagic.importers.torch import TorchError
    from nnmagic.importers.torch.programs import import_program

    module, data = make(name)
    try:
        if import_only:
            import_program(module, (data,))
            return "imported"
        function = from_torch(module, (data,), cache=False)
    except TorchError as error:
        return "refused: " + "; ".join(item.message[:300] for item in error.diagnostics)
    with torch.no_grad():
        expected, actual = module(data), function(data)
        exact = module.double()(data.double() if data.is_floating_point() else data)
    if isinstance(expected, dict):  # networks for segmentation
        if list(actual) != list(expected):
            return f"wrong: {list(actual)}, not {list(expected)}"
        parts = zip(actual.values(), expected.values(), exact.values(), strict=True)
    else:
        parts = zip((actual,), (expected,), (exact,), strict=True)
    return next(filter(None, itertools.starmap(_difference, parts)), "passes")


def _difference(actual: torch.Tensor, expected: torch.Tensor, exact: torch.Tensor) -> str | None:
    """Say how a result is wrong; torch's own error is the measure: random weights give results up to 1e9."""
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        return f"wrong: {actual.dtype} {list(actual.shape)}, not {expected.dtype} {list(expected.shape)}"
    size = float(exact.abs().max())
    ours, theirs = (float((result - exact).abs().max()) for result in (actual, expected))
    if ours <= 4 * theirs + 1e-6 * size:
        return None
    return f"wrong: errors of {ours:.2g}, torch's {theirs:.2g}, in results up to {size:.2g}"


def count_passes(names: Iterable[str], check: Callable[[str], str]) -> None:
    """Check models by name; print what became of each, and how many pass."""
    outcomes = []
    for name in names:
        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = check(name)
            except Exception as error:
                found = f"error: {type(error).__name__}: {error}"[:400]
        outcomes.append(found.startswith(("passes", "imported")))
        print(f"{name}: {found} ({time.perf_counter() - begin:.0f} s)", flush=True)
    print(f"{sum(outcomes)} of {len(outcomes)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--import-only", action="store_true")
    options = parser.parse_args()
    count_passes(options.names or [*TEXT, *VISION], partial(check, import_only=options.import_only))


if __name__ == "__main__":
    main()
