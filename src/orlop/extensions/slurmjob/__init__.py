"""SlurmJobs: batch jobs without a pod, submitted, followed and shown as objects."""
