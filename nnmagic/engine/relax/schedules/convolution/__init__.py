"""Schedule convolutions."""
