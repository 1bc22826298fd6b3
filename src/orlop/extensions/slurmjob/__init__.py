"""Slurm's own jobs as objects: SlurmJobs, and the queue itself.

Run where the engine is Slurm. A SlurmJob becomes an sbatch, its status is what Slurm says, a pod of
its own shows its output; every other job of the user is shown as an object that Orlop writes.
"""
