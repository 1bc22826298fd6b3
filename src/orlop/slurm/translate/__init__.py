"""Translates a pod to a job: annotations and resources in, options of sbatch out."""
