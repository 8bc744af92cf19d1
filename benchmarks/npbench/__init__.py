"""Programs of science in NumPy, of the kinds that NPBench measures."""
