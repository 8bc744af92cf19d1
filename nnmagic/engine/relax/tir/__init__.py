"""Build and rewrite TIR, independently of the kernel's family."""
