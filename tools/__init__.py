"""Prepares a machine for development: `tools/setup` is the door, `python3 -m tools` what it opens."""
