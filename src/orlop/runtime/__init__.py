"""What containers need before they run: the root that their image holds, and a runtime.

The kubelet asks `images.Images` for the one, the command line asks `detect` about the other.
Nothing here starts a container: that is the agent's work.
"""
