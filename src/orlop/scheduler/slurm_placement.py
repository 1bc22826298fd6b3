"""Passes on to Slurm what it can be told of a pod's placement, and names what it cannot.

Asked by the scheduler when it binds a pod to a partition, within which Slurm chooses the hosts. The
result is annotations of the binding, which become sbatch's options, and words for an Event. Pure;
what the pod's own annotations say is kept, and a constraint is added to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .. import wellknown
from ..api.objects import Obj, annotations_of, meta
from ..client.affinity import matches_term
from ..errors import ConfigError
from ..slurm.translate.host_selection import PREFIXES
from ..slurm.translate.job import joined_constraint, requested
from .affinity import Affinity
from .snapshot import HOSTNAME, is_partition
from .terms import PREFERRED, REQUIRED

CONSTRAINT = wellknown.SLURM_PREFIX + "constraint"
EXCLUSIVE = wellknown.SLURM_PREFIX + "exclusive"
NODELIST = wellknown.SLURM_PREFIX + "nodelist"


@dataclass(slots=True)
class Handover:
    annotations: dict[str, str] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def handover(pod: Obj, node: Obj, affinity: Affinity) -> Handover:
    """Turn the required terms on hosts into options, the others into words."""
    made = Handover()
    if not is_partition(node):
        return made
    partition = meta(node)["name"]
    own = annotations_of(pod)
    if any(term.topology_key == HOSTNAME for term in affinity.unwanted) and EXCLUSIVE not in own:
        made.annotations[EXCLUSIVE] = "true"
        made.passed.append(
            "required pod anti-affinity between hosts: the job asks for a host of its own "
            "(--exclusive), which alone keeps others away while they are still queued; "
            f'the annotation {EXCLUSIVE}: "false" does without'
        )
    hosts = sorted(affinity.hosts_for(node))
    if hosts and NODELIST not in own and not affinity.is_first:
        made.annotations[NODELIST] = hosts[0]
        made.passed.append(f"required pod affinity to a host: --nodelist={hosts[0]}")
    _add_labels(made, pod, node)
    made.lost += _soft(pod)
    made.lost += _spread(pod)
    if made.lost:
        made.lost.append(f"within partition {partition} Slurm places by its own rules")
    return made


def _add_labels(made: Handover, pod: Obj, node: Obj) -> None:
    """Add required node affinity to labels that not all hosts of a partition may have."""
    features, others = _hosts(pod, node)
    if others:
        made.annotations[wellknown.HOSTS] = ",".join(others)
        made.passed.append(f"required node affinity: hosts with {', '.join(others)}")
    if not features:
        return
    try:
        constraint = joined_constraint(requested(pod, "constraint"), features)
    except ConfigError as error:
        made.lost.append(str(error))
        return
    made.annotations[CONSTRAINT] = constraint
    made.passed.append(f"required node affinity to features: --constraint={constraint}")


def _hosts(pod: Obj, node: Obj) -> tuple[list[str], list[str]]:
    """Return, of the terms that the node meets, the one that asks for the least."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    asked = [_asked(term) for term in terms if matches_term(term, node)]
    return min(asked, key=lambda one: len(one[0]) + len(one[1]), default=([], []))


def _asked(term: Obj) -> tuple[list[str], list[str]]:
    """Return features that the host must have; and labels that it must, or (!) must not, have."""
    features, others = [], []
    for one in term.get("matchExpressions") or []:
        key = one["key"]
        if not key.startswith(PREFIXES):
            continue
        is_wanted = one["operator"] in ("In", "Exists")
        # "true" is the only value there is.
        is_unwanted = one["operator"] == "DoesNotExist" or (
            one["operator"] == "NotIn" and "true" in one["values"]
        )
        if is_wanted and key.startswith(wellknown.FEATURE_LABEL_PREFIX):
            features.append(key.removeprefix(wellknown.FEATURE_LABEL_PREFIX))
        elif is_wanted or is_unwanted:
            others.append(key if is_wanted else f"!{key}")
    return features, others


def _soft(pod: Obj) -> list[str]:
    found = []
    for kind, words in (("podAffinity", "affinity"), ("podAntiAffinity", "anti-affinity")):
        terms = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(PREFERRED) or []
        if any(one["podAffinityTerm"]["topologyKey"] == HOSTNAME for one in terms):
            found.append(f"preferred pod {words} between hosts cannot be passed on")
    return found


def _spread(pod: Obj) -> list[str]:
    constraints = pod["spec"].get("topologySpreadConstraints") or []
    if any(one["topologyKey"] == HOSTNAME for one in constraints):
        return ["topology spread constraints between hosts cannot be passed on"]
    return []
