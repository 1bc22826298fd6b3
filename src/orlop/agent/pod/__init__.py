"""The pod on its node: what happens to it, its sandbox, its volumes, its folders.

`gang` leads the one job of a gang, in which each member's agent is a step.
"""
