"""Walk, compare, hash and store Relay programs."""
