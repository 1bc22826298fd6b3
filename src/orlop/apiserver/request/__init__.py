"""One HTTP request, from its first byte to its answer."""
