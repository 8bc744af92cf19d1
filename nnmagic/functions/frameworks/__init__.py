"""Functions of torch and JAX that run compiled functions, with the compiled gradients."""
