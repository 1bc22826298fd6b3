"""GPUs by Kubernetes' words: asked for with limits, given by Slurm, seen by their pods alone."""

from __future__ import annotations

from tests.e2e.site import Site, eventually, pod

SEES = "for f in /dev/nvidia[0-9]*; do [ -c $f ] && echo $f; done; echo told; exec sleep 300"


def test_pods_on_one_node_see_different_gpus(limited_site: Site) -> None:
    site = limited_site
    for name, count in (("one", 1), ("two", 2)):
        asked = {"resources": {"limits": {"nvidia.com/gpu": count, "memory": "64Mi"}}}
        where = {"metadata": {"annotations": {"slurm.orlop.dev/nodelist": "n1"}}}
        site.apply(pod(name, "busybox", SEES, container=asked, **where))
    plain = {"metadata": {"annotations": {"slurm.orlop.dev/nodelist": "n1"}}}
    site.apply(pod("none", "busybox", f"echo $NVIDIA_VISIBLE_DEVICES; {SEES}", **plain))
    seen = {}
    for name in ("one", "two", "none"):
        site.wait_phase(name, "Running")
        lines = eventually(lambda n=name: _told(site, n), f"{name} has told")
        seen[name] = lines[:-1]
    assert [len(seen[name]) for name in ("one", "two")] == [1, 2]
    assert not {*seen["one"]} & {*seen["two"]}
    assert seen["none"] == ["void"]


OPENS = (
    "for f in /dev/nvidia[0-9]; do (: < $f) 2>&1 | grep -q permitted || echo $SLURM_PROCID $f; done"
)


def test_each_rank_opens_its_own_gpus_and_no_others(limited_site: Site) -> None:
    """By Slurm's own cgroups, in the one container that the ranks of a node share."""
    site, shape = limited_site, {"nodes": "2", "ntasks-per-node": "2"}
    asked = {"resources": {"limits": {"nvidia.com/gpu": 2, "memory": "64Mi"}}}
    notes = {f"slurm.orlop.dev/{name}": value for name, value in shape.items()}
    said = f"{OPENS}; echo $SLURM_PROCID sees $CUDA_VISIBLE_DEVICES"
    site.apply(pod("own", "busybox", said, container=asked, metadata={"annotations": notes}))
    site.wait_phase("own", "Succeeded", timeout=120)
    lines = [line.split() for line in site.kubectl("logs", "own").splitlines()]
    assert sorted(line for line in lines if "sees" in line) == [
        [rank, "sees", "0,1"] for rank in "0123"
    ]
    opened = {rank: {line[1] for line in lines if line[0] == rank} - {"sees"} for rank in "0123"}
    assert [len(files) for files in opened.values()] == [2, 2, 2, 2]
    for first, second in ("01", "23"):  # those of one node
        assert not opened[first] & opened[second]


def _told(site: Site, name: str) -> list[str]:
    lines = site.kubectl("logs", name).splitlines()
    return lines if "told" in lines else []
