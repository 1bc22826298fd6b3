"""Service accounts and their tokens, bootstrap tokens, aggregated roles."""
