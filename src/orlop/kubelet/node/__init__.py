"""Shows machines of the engine as Kubernetes nodes."""
