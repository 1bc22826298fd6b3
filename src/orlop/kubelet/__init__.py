"""Owns a pod from its plan to its last status, whatever engine runs it."""

from .kubelet import Kubelet

__all__ = ["Kubelet"]
