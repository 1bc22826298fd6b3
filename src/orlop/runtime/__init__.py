"""What containers need before they run: their images, and to know which runtimes a site has.

The kubelet asks `images.Images` for a root folder, the command line asks `detect`. Nothing here
starts a container: that is the agent's work.
"""
