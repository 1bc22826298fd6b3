"""What a site's Slurm has, as objects to read: partitions, accounts, QOS and reservations."""
