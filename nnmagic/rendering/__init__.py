"""Pictures of Relay modules: coloured text, graphs, tables, as notebooks show them. Knows Relay, no notebook.

Everything here is the same on every run, holds no script, and escapes what it is given.
"""
