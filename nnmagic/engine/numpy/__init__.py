"""Interpret Relay with NumPy, one node after the other: slow and obvious. Imports Relay and NumPy alone."""

from nnmagic.engine.numpy.interpreter import FunctionValue, Interpreter, Observer, Reference

__all__ = ["FunctionValue", "Interpreter", "Observer", "Reference"]
