"""The common parts of the jobs of kubeflow.org."""
