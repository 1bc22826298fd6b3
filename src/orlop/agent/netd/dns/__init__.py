"""Answers the pod's questions for names."""
