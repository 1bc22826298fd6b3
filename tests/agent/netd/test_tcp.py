"""TCP between pods: every port is a pod's own, and everyone is who they are."""

from __future__ import annotations

from ..pods import container

# A page that says whose it is.
WEB = (
    "folder=/tmp/www-$(hostname); mkdir $folder; hostname > $folder/index.html; "
    "exec busybox httpd -f -p 80 -h $folder"
)


def test_two_pods_have_the_same_port_and_reach_each_other(neighbourhood, runtime):
    a = neighbourhood.add(container(script=WEB), runtime=runtime)
    b = neighbourhood.add(container(script=WEB), runtime=runtime)
    a.pod.wait_for(lambda: "80" in a.state["tcp"] and "80" in b.state["tcp"], 40)
    fetch = "busybox wget -qO- http://"
    assert a.sh(f"{fetch}{b.ip}/").strip() == b.pod.folder.name
    assert b.sh(f"{fetch}{a.ip}/").strip() == a.pod.folder.name
    for pod in (a, b):
        assert pod.sh(f"{fetch}127.0.0.1/").strip() == pod.pod.folder.name
        assert pod.sh(f"{fetch}localhost/").strip() == pod.pod.folder.name
