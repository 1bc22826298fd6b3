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


def _told(site: Site, name: str) -> list[str]:
    lines = site.kubectl("logs", name).splitlines()
    return lines if "told" in lines else []
