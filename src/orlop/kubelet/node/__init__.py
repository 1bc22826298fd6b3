"""Machines of the engine as Kubernetes nodes."""
