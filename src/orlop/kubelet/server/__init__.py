"""Serves the kubelet's HTTPS listener: logs, exec, attach, port-forward, and numbers."""
