"""Finds what of Orlop's own lets a pod out of its container, as violations of pod security.

Used by the admission plugin PodSecurity beside upstream's checks, for every level but privileged.
Pure. Each annotation of ours stands in `STANDING`, so that a new one must be given a place; what is
on no list is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from .... import wellknown
from ....api.gangs import later_of
from ....api.objects import Obj, annotations_of
from ....api.podsecurity.subject import Found, Subject, containers, plural, quoted
from ....errors import ConfigError
from ....slurm.translate.annotations import from_annotations
from ....slurm.translate.harmless_options import HARMLESS
from ....slurm.translate.ranks import SHAPE, least

# Where an annotation stands.
CONFINED = "restricted"  # what it asks for, a container has within its walls
OUT = "privileged"  # it leads out, or may
JUDGED = "by its value"
WRITTEN = "written by Orlop, or read elsewhere than on pods"

STANDING: Mapping[str, str] = {
    wellknown.RUNTIME_ANNOTATION: JUDGED,  # host: no container at all
    wellknown.PRE_EXEC: OUT,  # shell lines on the node
    wellknown.SRUN_FLAGS: OUT,  # programs and files of the node, by srun
    wellknown.MPI: OUT,  # ranks are on their node's network
    wellknown.FLAGS: JUDGED,
    wellknown.SLURM_PREFIX: JUDGED,  # a single option
    **dict.fromkeys(wellknown.FLAGS_ALIASES, JUDGED),
    **dict.fromkeys(wellknown.OPTION_ALIAS_PREFIXES, JUDGED),
    **dict.fromkeys(wellknown.MPI_FLAGS_ALIASES, JUDGED),  # with several nodes: ranks
    wellknown.DEPENDENCY: CONFINED,
    wellknown.REPLACE: CONFINED,
    wellknown.ON_TIMEOUT: CONFINED,
    wellknown.GANG: CONFINED,
    wellknown.GANG_ROOM: JUDGED,  # templates of pods, whose annotations count as the pod's own
    wellknown.GANG_SIZE: CONFINED,
    wellknown.DISTRIBUTED: CONFINED,
    wellknown.DISTRIBUTED_PORT: CONFINED,
    wellknown.DISTRIBUTED_PLACE: CONFINED,
    wellknown.GROUP: CONFINED,  # commands in containers of the same namespace
    wellknown.MPI_CONTAINER: CONFINED,
    wellknown.LABEL: CONFINED,
    wellknown.HOSTS: CONFINED,
    wellknown.RESTART_COUNT: CONFINED,
    wellknown.MIRROR: CONFINED,  # nothing is started for it
    wellknown.DEFAULT_CONTAINER: CONFINED,
    wellknown.EXPIRING: WRITTEN,
    wellknown.STANDS_FOR: WRITTEN,
    **dict.fromkeys(wellknown.WRITTEN_BACK, WRITTEN),
    wellknown.MAX_TIME: WRITTEN,
    wellknown.MAX_NODES: WRITTEN,
    wellknown.MIRROR_QUOTA: WRITTEN,
    wellknown.SOME_HOSTS: WRITTEN,
}
_HOSTS = ("nodelist", "exclude")


def ways_out(metadata: Obj, spec: Obj) -> list[str]:
    """Return each way out as `reason (detail)`, as upstream's checks have them."""
    pod = Subject(metadata, spec, 0)
    found = (
        *(_images(pod), _image_volumes(pod), _nfs_volumes(pod)),
        *(_annotations(pod), _ranks(pod), _options(pod), _files(pod)),
    )
    return [
        *(f"{reason} ({detail})" for reason, detail in found if reason),
        *_ways_out_of_others(pod),
    ]


def _ways_out_of_others(pod: Subject) -> list[str]:
    """Find what the pods ask for that a gang keeps room for: it is asked for in the gang's job."""
    text = annotations_of({"metadata": pod.metadata}).get(wellknown.GANG_ROOM, "").strip()
    try:
        templates = [one.template for one in later_of(text)]
    except ConfigError as error:
        return [f"pods that come later (which cannot be read: {error})"]
    if any(wellknown.GANG_ROOM in annotations_of(one) for one in templates):
        return [f"pods that come later (they must not have {wellknown.GANG_ROOM} themselves)"]
    found = [why for one in templates for why in ways_out(one["metadata"], one["spec"])]
    return [f"pods that come later: {why}" for why in dict.fromkeys(found)]


def _is_of_the_node(image: object) -> bool:
    """Return whether an image is the node's own root, or a path.

    Any folder of the node may be a container's root.
    """
    return image == wellknown.HOST_IMAGE or str(image or "").startswith("/")


def _images(pod: Subject) -> Found:
    bad = [one for one in pod.containers if _is_of_the_node(one.get("image"))]
    names = [one.get("name", "") for one in bad]
    images = sorted({str(one["image"]) for one in bad})
    what = f"must not use {plural('image', images)} {quoted(images)}"
    return ("image of the node", f"{containers(names)} {what}") if bad else ("", "")


def _image_volumes(pod: Subject) -> Found:
    """Find image volumes that are a folder of the node: hostPath by another name."""
    volumes = pod.spec.get("volumes") or ()
    bad = [one.get("name", "") for one in volumes
           if _is_of_the_node((one.get("image") or {}).get("reference"))]  # fmt: skip
    what = f"{plural('volume', bad)} {quoted(bad)} must not mount a path as an image"
    return ("image of the node", what) if bad else ("", "")


def _nfs_volumes(pod: Subject) -> Found:
    """Find volumes of NFS: a folder that the node has mounted, as its user may read it."""
    bad = [one.get("name", "") for one in pod.spec.get("volumes") or () if one.get("nfs")]
    what = f"{plural('volume', bad)} {quoted(bad)} must not name an export of NFS"
    return ("folder of the node", what) if bad else ("", "")


def _annotations(pod: Subject) -> Found:
    found = annotations_of({"metadata": pod.metadata})
    bad = [
        f'{name}="{text}"'
        for name, text in sorted(found.items())
        if (text.strip() and STANDING.get(name) == OUT)
        or (name == wellknown.RUNTIME_ANNOTATION and text == wellknown.HOST_IMAGE)
    ]
    what = f"must not set {plural('annotation', bad)} {', '.join(bad)}"
    return ("no container", f"pod {what}") if bad else ("", "")


def _ranks(pod: Subject) -> Found:
    """Find ranks: tasks that srun starts are on their node's network, as with hostNetwork."""
    asked = _asked(pod)
    many = [f"--{name}={asked[name]}" for name in SHAPE if least(asked.get(name) or "") > 1]
    return ("host namespaces", f"tasks on their node's network: {', '.join(many)}") if many else (
        "", ""
    )  # fmt: skip


def _options(pod: Subject) -> Found:
    try:
        from_annotations(annotations_of({"metadata": pod.metadata}), [])
    except ConfigError as error:
        return "options of sbatch", f"which cannot be read: {error}"
    bad = sorted(f"--{name}" for name in _asked(pod) if name not in HARMLESS)
    what = f"pod must not ask for {', '.join(bad)}"
    return ("options of sbatch", what) if bad else ("", "")


def _files(pod: Subject) -> Found:
    """Find lists of hosts that are a file for sbatch, which is read where the control plane is."""
    asked = _asked(pod)
    bad = [f"--{name}={asked[name]}" for name in _HOSTS if "/" in (asked.get(name) or "")]
    return ("options of sbatch", f"hosts by a file: {', '.join(bad)}") if bad else ("", "")


def _asked(pod: Subject) -> dict[str, str | None]:
    """Return the options that the annotations ask for.

    Annotations that cannot be read ask for nothing: the pod is refused because of them.
    """
    try:
        return from_annotations(annotations_of({"metadata": pod.metadata}), [])
    except ConfigError:
        return {}
