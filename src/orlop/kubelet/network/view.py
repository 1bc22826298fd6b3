"""Answers what agents may ask about the cluster's network: a key in, what is so now out.

Reads informers' caches and what agents have said of their pods; says of each key what its answer
depends on, and at each change what has changed, so that work is done only for what somebody asked.
Agents are told by `endpoint_updates.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ...api.kinds import ENDPOINT_SLICE, NAMESPACE, NETWORK_POLICY, POD, SERVICE
from ...api.objects import Key, Obj, is_terminal, key_of, labels_of, meta, uid_of
from ...api.objects import is_ready as is_pod_ready
from ...client.api import WatchEvent
from ...client.informer import Informers
from ...network import names
from ...network.policies import peer_value, policy_value
from ...network.ranges import Ranges
from ...network.services import cluster_ips, is_headless, service_of, service_value
from ..planning.network import rank_ports
from ..pod.pods import Pods, PodState

Token = tuple[str, ...]
UNKNOWN = object()  # not yet: the answer comes when it is known
_BY_IP, _BY_SERVICE, _BY_ENDPOINT, _BY_UID = "cluster-ip", "of-service", "endpoint", "metadata.uid"


@dataclass(slots=True)
class Place:
    """The place where a pod's sockets really are, as its agent says.

    `ranks` are ports of its ranks, by protocol: those are on their node's network, where no agent
    sees them, so that what the pod declares is taken for it.
    """

    address: str = ""
    notice: int = 0
    tcp: dict[str, int] = field(default_factory=dict)
    udp: dict[str, int] = field(default_factory=dict)
    ranks: dict[str, dict[str, int]] = field(default_factory=dict)

    def open(self, protocol: str, ports: dict[str, int]) -> None:
        """Set all that are open, in place of what was."""
        found = {**self.ranks.get(protocol, {}), **ports}
        if protocol == "tcp":
            self.tcp = found
        else:
            self.udp = found

    def close(self, protocol: str, port: str) -> None:
        ports = self.tcp if protocol == "tcp" else self.udp
        ports.pop(port, None)
        self.open(protocol, ports)


class NetworkView:
    """`changed` is called with what has changed, as tokens."""

    def __init__(
        self,
        informers: Informers,
        pods: Pods,
        ranges: Ranges,
        changed: Callable[[set[Token]], None],
    ) -> None:
        self._states = pods
        self._ranges = ranges
        self._changed = changed
        self.places: dict[str, Place] = {}  # by the pod's uid
        self._standing: dict[str, Place] = {}  # of pods without an agent, by their address
        self.is_complete = False  # whether all pods of an earlier control plane are known
        self._pods = informers.informer(POD)
        self._pods.add_index(_BY_UID, lambda pod: (uid_of(pod),))
        self._services = informers.informer(SERVICE)
        self._services.add_index(_BY_IP, cluster_ips)
        self._slices = informers.informer(ENDPOINT_SLICE)
        self._slices.add_index(_BY_SERVICE, lambda one: (str(_owner(one)),))
        self._slices.add_index(_BY_ENDPOINT, _addresses)
        self._namespaces = informers.informer(NAMESPACE)
        self._policies = informers.informer(NETWORK_POLICY)

    async def begin(self) -> None:
        """Follow what there is, once all of it is known."""
        followed = (self._pods, self._services, self._slices, self._namespaces, self._policies)
        for informer in followed:
            await informer.synced()
        self.is_complete = True
        self._pods.subscribe(self._on_pod)
        self._services.subscribe(self._on_service)
        self._slices.subscribe(self._on_slice)
        self._namespaces.subscribe(self._on_namespace)
        self._policies.subscribe(self._on_policy)

    # What a key depends on

    def tokens(self, key: str) -> list[Token]:
        kind, _, rest = key.partition("/")
        if kind == "name":
            return self._tokens_of_name(rest)
        if kind == "svc":
            return [("address", rest)]
        if kind == "policy":
            return [("pod", rest), *self._namespace_token(rest)]
        return [("ip", rest)]  # pod, peer

    def _tokens_of_name(self, name: str) -> list[Token]:
        question = names.parse(name, self._ranges.domain)
        if question is None:
            return []
        if question.kind == "service":
            return [("service", question.namespace, question.service)]
        if question.kind == "reverse":
            return [("address", question.address)]
        if question.kind == "pod":
            return [("ip", question.address)]
        return [("namespace", question.namespace)]

    def _namespace_token(self, uid: str) -> Iterator[Token]:
        state = self._states.get(uid)
        if state is not None:
            yield ("policies", state.key.namespace)

    # What is so now

    def value(self, key: str) -> Any:
        """Return the answer; None: there is no such thing; UNKNOWN: it cannot be known yet."""
        if not self.is_complete:
            return UNKNOWN
        kind, _, rest = key.partition("/")
        answers = {
            "pod": self._pod,
            "peer": self._peer,
            "svc": self._service,
            "name": self._name,
            "policy": self._policy,
        }
        answer = answers.get(kind)
        return answer(rest) if answer is not None else None

    def _alive(self, address: str) -> tuple[PodState, Obj] | None:
        """Return the pod that has an address, unless it has ended."""
        state = self._states.get(self._states.addresses.owner(address))
        pod = self._pods.get(state.key) if state is not None else None
        if state is None or pod is None or uid_of(pod) != state.uid or is_terminal(pod):
            return None
        return state, pod

    def _pod(self, address: str) -> Any:
        standing = self._standing.get(address)
        if standing is not None:
            return _told(standing, True)
        found = self._alive(address)
        if found is None:
            return None
        state, pod = found
        place = self.places.get(state.uid) or _of_ranks(pod)
        if place is None or not place.address:
            return UNKNOWN
        return _told(place, is_pod_ready(pod))

    def _peer(self, address: str) -> Obj | None:
        found = self._alive(address)
        if found is None:
            return None
        namespace = self._namespaces.get(Key("", found[0].key.namespace))
        return peer_value(found[1], labels_of(namespace) if namespace is not None else {})

    def _service(self, address: str) -> Obj | None:
        services = self._services.by_index(_BY_IP, address)
        return service_value(services[0], self._slices_of(services[0])) if services else None

    def _slices_of(self, service: Obj) -> list[Obj]:
        found = self._slices.by_index(_BY_SERVICE, str(key_of(service)))
        return sorted(found, key=lambda one: meta(one)["name"])

    def _policy(self, uid: str) -> Obj | None:
        pods = self._pods.by_index(_BY_UID, uid)
        return self.policy_of(pods[0]) if pods else None

    def policy_of(self, pod: Obj) -> Obj | None:
        """Return the rules of a pod as of now; None: it is not restricted, or its traffic is its
        node's.
        """
        if pod["spec"].get("hostNetwork"):
            return None
        return policy_value(pod, self._policies.list(meta(pod)["namespace"]))

    def services_for(self, pod: Obj) -> list[Obj]:
        """Return the services that a pod is told of by variables: its namespace's, and the
        API's.
        """
        api = self._services.get(Key("default", "kubernetes"))
        own = self._services.list(meta(pod)["namespace"])
        return own if api is None or api in own else [*own, api]

    def _name(self, name: str) -> Obj | None:
        question = names.parse(name, self._ranges.domain)
        if question is None:
            return None
        match question.kind:
            case "service":
                return self._service_name(question)
            case "pod":
                return self._pod_name(question)
            case "reverse":
                return self._reverse(question.address)
            case "namespace":
                exists = self._namespaces.get(Key("", question.namespace)) is not None
                return names.EMPTY if exists else None
            case "root":
                return names.EMPTY
            case "version":
                return names.VERSION_RECORDS
        return None

    def _service_name(self, question: names.Question) -> Obj | None:
        service = self._services.get(Key(question.namespace, question.service))
        if service is None:
            return None
        slices = self._slices_of(service)
        return names.service_records(question, service, slices, self._ranges.domain)

    def _pod_name(self, question: names.Question) -> Obj | None:
        found = self._alive(question.address)
        if found is None or found[0].key.namespace != question.namespace:
            return None
        return names.address_records(question.address)

    def _reverse(self, address: str) -> Obj | None:
        services = self._services.by_index(_BY_IP, address)
        if services:
            return names.reverse_records(address, services[0], [], self._ranges.domain)
        pairs = []
        for one in self._slices.by_index(_BY_ENDPOINT, address):
            service = self._services.get(_owner(one))
            if service is not None and is_headless(service):
                pairs.append((service, one))
        return names.reverse_records(address, None, pairs, self._ranges.domain)

    # What changes

    def stand(self, address: str, place: Place | None) -> None:
        """Say where a pod without an agent is to be found; None: it is not there any more."""
        if place is not None:
            self._standing[address] = place
        else:
            self._standing.pop(address, None)
        self._changed({("ip", address)})

    def place_of(self, state: PodState) -> Place:
        """Return the place to which its agent's words are added."""
        place = self.places.get(state.uid)
        if place is None:
            pod = self._pods.get(state.key)
            place = self.places[state.uid] = Place(ranks=rank_ports(pod) if pod is not None else {})
            place.open("tcp", {})
            place.open("udp", {})
        return place

    def moved(self, state: PodState) -> None:
        """Tell that its agent has said something new of where the pod is."""
        self._changed({("ip", state.pod_ip)})

    def _on_pod(self, event: WatchEvent, former: Obj | None) -> None:
        pod = event.object
        is_over = event.type == "DELETED" or is_terminal(pod)
        if is_over:
            self.places.pop(uid_of(pod), None)
        elif former is not None and _face(former) == _face(pod):
            return
        state = self._states.get(uid_of(pod))
        ip = state.pod_ip if state is not None else (pod.get("status") or {}).get("podIP")
        tokens: set[Token] = {("pod", uid_of(pod))}
        self._changed(tokens | {("ip", ip)} if ip else tokens)

    def _on_service(self, event: WatchEvent, former: Obj | None) -> None:
        key = key_of(event.object)
        tokens: set[Token] = {("service", key.namespace, key.name)}
        for service in (event.object, former):
            if service is not None:
                tokens |= {("address", ip) for ip in cluster_ips(service)}
        self._changed(tokens)

    def _on_slice(self, event: WatchEvent, former: Obj | None) -> None:
        tokens: set[Token] = set()
        for one in (event.object, former):
            if one is not None:
                owner = _owner(one)
                tokens.add(("service", owner.namespace, owner.name))
                service = self._services.get(owner)
                if service is not None:
                    tokens |= {("address", ip) for ip in cluster_ips(service)}
                    if is_headless(service):
                        tokens |= {("address", ip) for ip in _addresses(one)}
        self._changed(tokens)

    def _on_namespace(self, event: WatchEvent, former: Obj | None) -> None:
        name = meta(event.object)["name"]
        tokens: set[Token] = {("namespace", name)}
        if former is not None and labels_of(former) != labels_of(event.object):
            for pod in self._pods.list(name):
                state = self._states.get(uid_of(pod))
                if state is not None and state.pod_ip:
                    tokens.add(("ip", state.pod_ip))
        self._changed(tokens)

    def _on_policy(self, event: WatchEvent, former: Obj | None) -> None:
        self._changed({("policies", meta(event.object)["namespace"])})


def _of_ranks(pod: Obj) -> Place | None:
    """Return the place of a pod that has nothing but ranks, and so no network with a netd to speak
    for it.
    """
    ports, host = rank_ports(pod), (pod.get("status") or {}).get("hostIP")
    return Place(host, 0, ports.get("tcp", {}), ports.get("udp", {})) if ports and host else None


def _told(place: Place, is_ready: bool) -> Obj:
    """Return the place as agents are told of it."""
    where = {"address": place.address, "notice": place.notice}
    return {**where, "tcp": place.tcp, "udp": place.udp, "ready": is_ready}


def _owner(one: Obj) -> Key:
    """Return the service of a slice."""
    return Key(meta(one).get("namespace") or "", service_of(one))


def _addresses(one: Obj) -> list[str]:
    found = [a for endpoint in one.get("endpoints") or [] for a in endpoint["addresses"]]
    return list(dict.fromkeys(found))


def _face(pod: Obj) -> tuple[object, ...]:
    """Return all of a pod that others' networks can see."""
    status = pod.get("status") or {}
    return labels_of(pod), status.get("podIP"), status.get("hostIP"), is_pod_ready(pod)
