"""The workload controllers, which make pods: one folder or file for each kind, and what they
share."""
