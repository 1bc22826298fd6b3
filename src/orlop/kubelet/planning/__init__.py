"""From a pod to the plan of its job: what will run, with what, as whom."""
