"""The workload controllers, which make pods: one folder or file for each kind, and shared parts.

A gang begins here, as annotations that a workload's pods are made with; they are read later.
"""
