"""Element-wise operators of two tensors: arithmetic, comparison, logic, bits."""

from nnmagic.relay.ops.declaration import declare
from nnmagic.relay.ops.relations import broadcast

declare("add", "lhs rhs", broadcast, "Sum, element by element.", numpy="numpy.add", family="binary")
