"""What every cluster has from its first moment."""
