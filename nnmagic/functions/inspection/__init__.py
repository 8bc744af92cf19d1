"""Look into runs: profiles, steps, and where errors come from."""
