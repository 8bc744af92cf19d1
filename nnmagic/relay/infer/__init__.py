"""Type inference: from a module to the same module with the type of every expression, as Relay's InferType.

Knows the IR and the operators' declarations; no text format beyond how a type is written, no TVM.
"""

from nnmagic.relay.infer.erase import erase_types
from nnmagic.relay.infer.inference import infer_type

__all__ = ["erase_types", "infer_type"]
