"""Calls sbatch: once for each pod, together where pods are alike."""
