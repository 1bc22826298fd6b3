"""Speaks with the kernel: the filter, its notifications, and the process that made a call."""
