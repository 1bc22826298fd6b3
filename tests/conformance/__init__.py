"""Clients that others wrote, against our API server."""
