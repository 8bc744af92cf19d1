"""Schedule reductions, softmax and normalizations."""
