"""Probes and hooks: when they are due, and how a container is asked."""
