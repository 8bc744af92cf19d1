"""Analyse a Relay program before it is lowered. Never imports TVM."""
