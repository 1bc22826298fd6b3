"""Reads what squeue, sacct, sinfo and scontrol print into values of ours."""
