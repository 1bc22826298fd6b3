"""What pods are told of the cluster's network, and how the control plane reaches them."""
