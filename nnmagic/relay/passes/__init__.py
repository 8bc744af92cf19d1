"""Passes: a Relay module in, a Relay module out; each file one pass. They know the IR and no TVM."""
