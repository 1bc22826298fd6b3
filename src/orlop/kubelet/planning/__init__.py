"""Makes the plan of a pod's job: what will run, with what, as whom."""
