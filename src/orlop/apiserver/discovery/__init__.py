"""Tells what this server serves: discovery documents, OpenAPI, its version."""
