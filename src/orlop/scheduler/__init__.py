"""The scheduler: binds each pod to a node, or says plainly why none will do."""

from .scheduler import Scheduler

__all__ = ["Scheduler"]
