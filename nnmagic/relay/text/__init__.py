"""Print and parse Relay's text format."""
