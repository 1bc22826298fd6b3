"""Gangs: many pods, one job, one step for each.

What Slurm makes of a gang, and nothing of how it came to be one: that is in api/gangs.py.
"""
