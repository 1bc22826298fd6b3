"""Gives a pod its network: its processes stay on the node's, and netd answers their socket calls.

A seccomp filter has the kernel ask a process of the agent, netd, about the few calls that name an
address; netd decides each once, on the very socket of the caller, and the bytes then flow through
the kernel as if no one were there. Pods with `hostNetwork` have none of it.
"""
