"""Machine code as C calls it: entries, a runtime of its own, linking, adapters for callers of pointers."""
