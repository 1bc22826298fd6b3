"""The pod on its node: what happens to it, its sandbox, its volumes, its folders."""
