"""PodDisruptionBudgets, and the condition that a pod is about to be disrupted."""
