"""A container that runs once for every task of its job: a rank set, started by srun.

The pod's agent leads it (leader.py): it starts srun, whose tasks are starters (starter.py). On
every node one process makes the container once and serves it (container_server.py): from it each
starter gets the container's namespaces and becomes a rank in them. Ranks are children of Slurm's
own daemon, so that PMI, accounting and limits are those of any srun.
"""
