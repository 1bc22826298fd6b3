"""WlmJobs and SlurmJobs of wlm.sylabs.io, as SlurmJobs of ours."""
