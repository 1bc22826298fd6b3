"""Prepares a machine for the tests and the demo; `tools/setup` is its door."""
