"""Legalize operators on tensors whose channels are stored in blocks."""
