"""nnmagic: a tensor-compiler notebook."""
