"""Interpret Relay with NumPy, one node after the other: slow and obvious. Imports Relay and NumPy alone."""

from nnmagic.engine.numpy.interpreter import Closure, Interpreter, Observer, Reference

__all__ = ["Closure", "Interpreter", "Observer", "Reference"]
