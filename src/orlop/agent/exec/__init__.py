"""Commands beside a container's own: exec, attach, port-forward, and other pods of the group."""
