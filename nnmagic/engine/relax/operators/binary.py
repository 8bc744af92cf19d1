"""Element-wise operators of two tensors."""

from tvm import relax

from nnmagic.engine.relax.operators.rule import RULES, op

RULES.update({"add": op(relax.op.add)})
