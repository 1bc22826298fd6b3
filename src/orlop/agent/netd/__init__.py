"""The pod's network: its processes stay on the node's network, and their socket calls are answered.

A seccomp filter lets the kernel ask a process of the agent, netd, about the few calls that name
an address; netd decides each once, on the very socket of the caller, and the bytes then flow
through the kernel as if no one were there. Standard library only. Pods with `hostNetwork` have
none of it.
"""
