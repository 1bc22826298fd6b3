"""Kinds that are not Kubernetes' own: one folder each, one list of all of them."""
