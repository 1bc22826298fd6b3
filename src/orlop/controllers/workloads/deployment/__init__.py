"""Deployments: ReplicaSets rolled from one pod template to the next."""
