"""Compile machine code that C calls: entries, a runtime, linking, adapters for callers of pointers."""
