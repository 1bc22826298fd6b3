"""The control plane as a process: its start, its parts, its end."""
