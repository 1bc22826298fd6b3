"""Endpoints and EndpointSlices: which pods are behind a Service."""
