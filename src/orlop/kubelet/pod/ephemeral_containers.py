"""Brings ephemeral containers, as `kubectl debug` adds them to a pod's spec, to its running agent.

Called by the pod's worker whenever it looks at a pod that runs. The image is pulled and the
container's plan made here, by the control plane; the agent is told it, and again after it has
dialled anew, until its journal knows the container. What cannot be done is on the pod's status and
in an Event, and tried again; an agent that has begun a container is not told of it twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from ... import errors
from ...api.objects import Obj
from ...client.clock import Clock
from ...client.workqueue import Backoff, WorkQueue
from ...log import logger
from ..planning.refusal import Refusal
from ..start.image_puller import PullFailure
from ..start.preparation import Preparation
from ..status.container_status import ImageUsed
from ..status.pod_status import PendingReason
from ..tasks import Spawn
from .events import Events
from .pods import Added, PodState

_RETRY = Backoff(first=2.0, longest=300.0)

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class EphemeralContainers:
    preparation: Preparation
    events: Events
    queue: WorkQueue[str]
    spawn: Spawn
    clock: Clock

    def sync(self, pod: Obj, state: PodState) -> None:
        """See that the agent has every ephemeral container that the pod names."""
        if state.connection is None or state.journal.started is None:
            return
        for container in pod["spec"].get("ephemeralContainers") or []:
            if container["name"] not in state.journal.containers:
                self._bring(pod, state, container)

    def _bring(self, pod: Obj, state: PodState, container: Obj) -> None:
        added = state.added.setdefault(container["name"], Added())
        if added.plan is not None:
            if added.told is not state.connection and state.connection is not None:
                added.told = state.connection
                state.connection.tell({"type": "add", "container": added.plan})
        elif not added.is_preparing and self.clock.now() >= added.retry_at:
            added.is_preparing = True
            work = self._prepare(pod, state, container, added)
            self.spawn(work, f"container {container['name']} of {state.key}")

    async def _prepare(self, pod: Obj, state: PodState, container: Obj, added: Added) -> bool:
        try:
            added.plan = await self.preparation.ephemeral(pod, state, container)
        except PullFailure as failure:
            self._fail(pod, state, added, container, failure.reason, failure.message)
        except Refusal as refusal:
            self._fail(pod, state, added, container, refusal.reason, refusal.message)
        except (errors.Error, OSError) as error:
            self._fail(pod, state, added, container, "CreateContainerError", str(error))
        except Exception as error:
            # A container that nobody thought of must not end the kubelet.
            log.error("container not prepared", pod=str(state.key), exc_info=True)
            message = f"{type(error).__name__}: {error}"
            self._fail(pod, state, added, container, "CreateContainerError", message)
        else:
            added.trouble = None
            used = ImageUsed(added.plan["image"], added.plan["imageID"])
            state.images[container["name"]] = used
        finally:
            added.is_preparing = False
            self.queue.add_after(state.uid, 0.0)
        return added.plan is not None

    def _fail(
        self, pod: Obj, state: PodState, added: Added, container: Obj, reason: str, message: str
    ) -> None:
        self.events.tell(pod, "Warning", "Failed", f"Error: {message}")
        added.trouble = PendingReason(reason, message, container["name"])
        delay = _RETRY.delay(added.failures)
        added.failures += 1
        added.retry_at = self.clock.now() + delay
        self.queue.add_after(state.uid, delay)
