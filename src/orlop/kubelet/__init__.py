"""Who owns a pod: from its plan to its last status, beside whatever engine runs it."""

from .kubelet import Kubelet

__all__ = ["Kubelet"]
