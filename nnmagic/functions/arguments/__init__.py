"""Bind, convert and check the arguments of calls, and give results their form."""
