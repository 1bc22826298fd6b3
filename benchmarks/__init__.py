"""Measurements, always beside the plain tool in the same run; `make bench` prints them."""
