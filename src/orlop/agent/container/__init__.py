"""One container: its root, mounts, devices, limits, one run after another, and its log."""
