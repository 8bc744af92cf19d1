"""Compile fused Relax modules to object files."""
