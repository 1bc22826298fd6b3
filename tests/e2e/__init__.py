"""Whole lives of pods: the real kubectl, the real Slurm of several nodes, an unprivileged user."""
