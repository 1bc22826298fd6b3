"""The objects every cluster has from its first moment."""
