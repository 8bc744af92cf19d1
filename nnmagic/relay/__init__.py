"""Relay: IR, text, types and operators, in pure Python. Knows no TVM, no Python source, no notebook."""
