"""Custom resources: how a definition becomes a kind that is served like any other.

`served` is the registry of kinds that follows the definitions in the store, `controller` accepts
their names and empties them when they go, `versions` turns stored objects into the version that is
asked for. What a schema says is the business of `api/crd`.
"""
