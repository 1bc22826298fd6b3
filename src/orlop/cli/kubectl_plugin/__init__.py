"""`kubectl slurm` and its commands."""
