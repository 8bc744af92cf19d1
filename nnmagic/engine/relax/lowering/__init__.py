"""Lower Relay modules to Relax modules."""
