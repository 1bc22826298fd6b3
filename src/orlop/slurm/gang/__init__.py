"""Gangs: many pods, one job, one step for each."""
