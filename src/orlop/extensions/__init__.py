"""The kinds that are not Kubernetes' own: one folder each, and one list of all of them."""
