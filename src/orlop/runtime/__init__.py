"""What containers need before they run: the root that their image holds.

The kubelet asks `images.Images` for it. Nothing here starts a container: that is the agent's work.
"""
