"""Gives a pod a machine from Slurm: options, script, commands, states.

The kubelet speaks to `jobs.SlurmEngine` through the engine's interface, the command line to
`detect`; everything Slurm has a word for is in this folder. It knows pods and settings, and
nothing of containers, stores or API servers.
"""
