"""The scheduler: binds each pod to a node, or says plainly why none will do.

Of a gang it sees to one thing: all members get one node, as one Slurm job has one partition.
"""

from .scheduler import Scheduler

__all__ = ["Scheduler"]
