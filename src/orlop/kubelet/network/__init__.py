"""Tells pods what they need of the cluster's network, and connects the control plane to them."""
