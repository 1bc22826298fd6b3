"""The reason why a pod cannot be started as it is written, in the words that Kubernetes has for it.

Raised while a plan is made, caught by the pod's worker, which puts it on the waiting container and
into an Event. The worker decides whether to try again.
"""

from __future__ import annotations

from ...errors import ConfigError


class Refusal(ConfigError):
    """A request that cannot be met; `container` is empty where it concerns the whole pod."""

    def __init__(
        self,
        message: str,
        reason: str = "CreateContainerConfigError",
        *,
        container: str = "",
        event: str = "Failed",
    ) -> None:
        super().__init__(message, reason)
        self.container = container
        self.event = event

    @property
    def event_message(self) -> str:
        """Return the words of the kubelet for it: errors of containers begin with `Error: `."""
        return f"Error: {self.message}" if self.event == "Failed" else self.message

    def within(self, container: str) -> Refusal:
        """Return the same refusal, of that container."""
        return Refusal(self.message, self.reason, container=container, event=self.event)


def mount_refusal(volume: str, words: str) -> Refusal:
    """Return the refusal for a volume that cannot be had: the pod goes on waiting, as it does
    upstream.
    """
    message = f'MountVolume.SetUp failed for volume "{volume}" : {words}'
    return Refusal(message, "ContainerCreating", event="FailedMount")
