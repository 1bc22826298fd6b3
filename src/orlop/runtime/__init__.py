"""Provides what containers need before they run: the root that their image holds, and a runtime.

The kubelet asks `images.Images` for the one, the command line asks `detect` about the other.
Starting a container is the agent's work.
"""
