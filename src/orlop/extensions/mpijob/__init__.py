"""MPIJobs (kubeflow.org/v2beta1): workers that hold still, and a launcher that runs mpirun."""
