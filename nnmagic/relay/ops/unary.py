"""Element-wise operators of one tensor. Relay's Identity rule checks nothing, and so nor do these."""

from nnmagic.relay.ops.attributes import FLOAT, INT
from nnmagic.relay.ops.declaration import Attr, declare
from nnmagic.relay.ops.relations import identity

_PLAIN = {
    "abs": "Absolute value, element by element.",
    "exp": "e to the power of each element.",
}
for _name, _summary in _PLAIN.items():
    declare(_name, "data", identity, _summary, numpy=f"numpy.{_name}", family="unary")

declare(
    "clip",
    "data",
    identity,
    "Limits each element to the range from a_min to a_max.",
    Attr("a_min", FLOAT),
    Attr("a_max", FLOAT),
    attrs_key="ClipAttrs",
    numpy="numpy.clip",
    family="unary",
)
