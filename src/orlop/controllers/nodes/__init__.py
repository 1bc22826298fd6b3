"""Nodes that are silent or tainted, and the pods on them."""
