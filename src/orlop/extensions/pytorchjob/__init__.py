"""PyTorchJobs (kubeflow.org/v1): a master and workers, as one gang."""
