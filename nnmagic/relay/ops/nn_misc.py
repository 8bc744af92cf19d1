"""Activations with parameters, bias, padding, losses and what else stands in Relay's nn namespace."""

from nnmagic.relay.ops.attributes import FLOAT, INT
from nnmagic.relay.ops.declaration import Attr, declare
from nnmagic.relay.ops.relations import assume_channel_vectors, channel_vectors, identity

declare("nn.relu", "data", identity, "The element where it is positive, else 0.", family="nn")
declare(
    "nn.leaky_relu",
    "data",
    identity,
    "The element where it is positive, else alpha times it.",
    Attr("alpha", FLOAT, 0.25, call_default=0.01),
    attrs_key="LeakyReluAttrs",
    family="nn",
)
declare(
    "nn.bias_add",
    "data bias",
    channel_vectors("bias"),
    "A vector added along one axis.",
    Attr("axis", INT, 1),
    attrs_key="BiasAddAttrs",
    family="nn",
    assume=assume_channel_vectors,
)
