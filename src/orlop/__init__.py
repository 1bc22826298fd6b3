"""Orlop: a Kubernetes of your own on any Slurm cluster, each pod a Slurm job."""

__version__ = "0.1.0"
