"""Compile fused Relax functions ahead of time to native ones, with branches, loops and calls.

``planner`` reads Relax and makes a ``program``; ``memory`` gives its values their bytes; ``functions`` and
``entry`` emit TIR.
"""
