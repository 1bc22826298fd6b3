"""Slurm's own jobs as objects: SlurmJobs, those of earlier operators, and the queue itself.

Put together by the control plane where the engine is Slurm. A SlurmJob becomes an sbatch, its
status is what Slurm says, a pod of its own shows its output; every other job of the user, and what
the site has to offer, is shown as objects that Orlop writes.
"""
