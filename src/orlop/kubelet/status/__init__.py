"""Computes what is said of a pod: phase, conditions, container statuses, how it ended."""
