"""Finds out whose the other end of a connection is, and who says so."""
