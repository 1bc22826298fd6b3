"""JobSets (jobset.x-k8s.io): several sets of Jobs with one network and one end."""
