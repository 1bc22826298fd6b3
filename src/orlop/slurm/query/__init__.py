"""What squeue, sacct, sinfo and scontrol print, as values of ours."""
