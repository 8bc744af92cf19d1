"""Make PyTorch modules with random weights for backends of torch.compile. Imports torch in functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import module

#: Of the convolutional network: the side of its images.
SIDE = 64
#: Of the encoder layer: tokens, features, heads, features of the inner layer.
TOKENS, WIDTH, HEADS, INNER = 64, 256, 4, 1024


def convolutional() -> Any:
    """Return three convolutions with normalisations, each of half the side, and a linear layer."""
    torch = module("torch")
    nn = torch.nn
    torch.manual_seed(0)
    layers = []
    for inputs, outputs in ((3, 32), (32, 64), (64, 128)):
        convolution = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1, bias=False)
        norm = nn.BatchNorm2d(outputs)
        nn.init.uniform_(norm.running_mean, -0.5, 0.5)
        nn.init.uniform_(norm.running_var, 0.5, 1.5)
        layers += [convolution, norm, nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)).eval()


def encoder_layer() -> Any:
    """Return a layer of a transformer's encoder, with normalisations before attention and dense layers."""
    torch = module("torch")
    nn = torch.nn

    class EncoderLayer(nn.Module):  # type: ignore[misc, name-defined]  # torch is imported in functions
        def __init__(self) -> None:
            super().__init__()
            self.first_norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.project, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.inner, self.outer = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)

        def forward(self, x: Any) -> Any:
            batch, tokens, _ = x.shape
            parts = self.project(self.first_norm(x)).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            heads = nn.functional.scaled_dot_product_attention(query, key, value)
            x = x + self.join(heads.transpose(1, 2).reshape(batch, tokens, WIDTH))
            return x + self.outer(nn.functional.gelu(self.inner(self.second_norm(x))))

    torch.manual_seed(0)
    return EncoderLayer().eval()


def in_double(made: Any, x: np.ndarray) -> np.ndarray:
    """Return the result of a module in f64, eagerly: the judge's."""
    torch = module("torch")
    with torch.no_grad():
        return np.asarray(made.double()(torch.tensor(x).double()))
