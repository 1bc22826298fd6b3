"""Speaks with clients that reach into a pod: SPDY/3.1 and WebSocket, under one abstraction.

Used by remote commands and port-forwarding. Below are codecs that know frames and no pod; above,
`Client` is what a remote command sees of whoever asked for it.
"""
