"""BridgeJobs (bridgejob.ibm.com): SlurmJobs with scripts and results in S3."""
