"""Horizontal pod autoscalers: metrics in, replicas out."""
