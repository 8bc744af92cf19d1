"""Reproduce what the original Relay accepts and prints where its type inference is odd.

Only ``nnmagic.relay.infer.infer_type`` uses this package; inference itself does not depend on it.
"""
