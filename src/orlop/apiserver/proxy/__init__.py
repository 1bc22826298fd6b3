"""Connects the control plane to others: kubelets, pods, services, webhooks."""
