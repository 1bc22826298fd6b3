"""Makes pods: one folder or file a kind of workload, and what they share."""
