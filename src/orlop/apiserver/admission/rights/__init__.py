"""Checks that users do not give themselves rights by writing an object."""
