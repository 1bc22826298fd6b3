"""Seccomp profiles on real nodes: they hold, and the network goes on beside them."""

from __future__ import annotations

import json

from tests.e2e.site import Site, eventually, pod

NO_CHMOD = {
    "defaultAction": "SCMP_ACT_ALLOW",
    "syscalls": [{"names": ["chmod", "fchmodat", "fchmodat2"], "action": "SCMP_ACT_ERRNO"}],
}


def test_confined_pods_talk_to_each_other_and_are_refused_what_profiles_refuse(site: Site) -> None:
    folder = site.home / "seccomp"
    site.run("mkdir", "-p", str(folder))
    site.run("tee", str(folder / "no-chmod.json"), input=json.dumps(NO_CHMOD))
    default = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
    serve = "mkdir /w; echo found > /w/index.html; httpd -p 8080 -h /w; exec sleep 300"
    site.apply(pod("server", "busybox", serve, **default))
    address = eventually(lambda: site.pod("server")["status"].get("podIP"), "it has an address")
    site.wait_phase("server", "Running")
    own = {"type": "Localhost", "localhostProfile": "no-chmod.json"}
    look = f"until wget -qO- http://{address}:8080/; do sleep 0.2; done; touch /f; "
    tries = "chmod 600 /f 2>/dev/null || echo refused"
    client = {"container": {"securityContext": {"seccompProfile": own}}}
    site.apply(pod("client", "busybox", look + tries, **client))
    site.wait_phase("client", "Succeeded")
    assert site.kubectl("logs", "client").splitlines()[-2:] == ["found", "refused"]
    missing = {"type": "Localhost", "localhostProfile": "missing.json"}
    lacks = {"container": {"securityContext": {"seccompProfile": missing}}}
    site.apply(pod("lacking", "busybox", "true", **lacks))
    words = eventually(lambda: _waiting(site, "lacking"), "it says why it waits")
    assert words[0] == "CreateContainerError"
    assert 'cannot load seccomp profile "missing.json"' in words[1]


def _waiting(site: Site, name: str) -> tuple[str, str] | None:
    for status in site.pod(name)["status"].get("containerStatuses", []):
        waiting = status["state"].get("waiting", {})
        if waiting.get("message"):
            return waiting["reason"], waiting["message"]
    return None
