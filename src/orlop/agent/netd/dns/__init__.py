"""The pod's name server."""
