"""Owns a pod from its plan to its last status, whatever engine runs it."""

from .configuration import (
    KubeletConfiguration,
    KubeletCredentials,
    KubeletDependencies,
    NodePrograms,
)
from .kubelet import Kubelet
from .wiring import wire

__all__ = [
    "Kubelet",
    "KubeletConfiguration",
    "KubeletCredentials",
    "KubeletDependencies",
    "NodePrograms",
    "wire",
]
