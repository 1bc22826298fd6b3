"""What the jobs of kubeflow.org have in common."""
