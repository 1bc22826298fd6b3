"""Holds the kubelet's end of the agents' connections: messages, journals, sessions."""
