"""Limits what a namespace may have: quotas and ranges of limits."""
