"""PodDisruptionBudgets, and the word that a pod is about to be disrupted."""
