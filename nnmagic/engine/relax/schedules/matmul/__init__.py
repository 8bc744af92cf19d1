"""Schedule matrix products."""
