"""What a pod's spec says is what its containers find, in both runtimes.

Few pods that ask for much each: images' own commands, groups, variables, files, names, and exits
that are tried again.
"""

from __future__ import annotations

import pytest

from tests.e2e.site import Obj, Site, eventually, pod, terminated

RUNTIMES = ["crun", "apptainer"]
FIELDS = {
    "NAME": "metadata.name",
    "NAMESPACE": "metadata.namespace",
    "UID": "metadata.uid",
    "LABEL": "metadata.labels['app']",
    "NOTE": "metadata.annotations['example.com/note']",
    "NODE": "spec.nodeName",
    "ACCOUNT": "spec.serviceAccountName",
    "POD_IP": "status.podIP",
    "POD_IPS": "status.podIPs",
    "HOST_IP": "status.hostIP",
    "HOST_IPS": "status.hostIPs",
}
RESOURCES = {
    "CPU": ({"resource": "limits.cpu", "divisor": "1m"}, "500"),
    "CPUS": ({"resource": "limits.cpu"}, "1"),
    "MEMORY": ({"resource": "requests.memory", "divisor": "1Mi"}, "64"),
    "OTHER": ({"resource": "limits.memory", "divisor": "1Ki", "containerName": "member"}, "131072"),
}
LOOK = """
env; echo --; stat -Lc '%n %a %g' /secret/key /config/deep/colour /all; id -u; cat /secret/key
cat /config/deep/colour; ls /config; ls /absent
touch /mine/x; ls /all/whole/logs; hostname; cat /etc/resolv.conf
"""


def with_objects(manifest: Obj) -> Obj:
    """A pod and what the pods here name."""
    data = {"colour": "blue\n", "unasked": "for\n"}
    settings = {"kind": "ConfigMap", "metadata": {"name": "settings"}, "data": data}
    vault = {"kind": "Secret", "metadata": {"name": "vault"}, "stringData": {"key": "hidden\n"}}
    ports = {"spec": {"ports": [{"port": 80}]}}
    links = {"kind": "Service", "metadata": {"name": "links"}, **ports}
    named = [{"apiVersion": "v1", **one} for one in (settings, vault, links)]
    return {"apiVersion": "v1", "kind": "List", "items": [*named, manifest]}


def looks() -> Obj:
    """The container that is told all there is to tell."""
    fields = [{"name": n, "valueFrom": {"fieldRef": {"fieldPath": p}}} for n, p in FIELDS.items()]
    amounts = [{"name": n, "valueFrom": {"resourceFieldRef": r}} for n, (r, _) in RESOURCES.items()]
    expanded = {"name": "EXPANDED", "value": "$(NAME) in $(NAMESPACE) $$(NAME) $(NOBODY)"}
    return {
        "name": "main",
        "image": "busybox",
        "command": ["sh", "-c", LOOK],
        "env": [*fields, *amounts, expanded],
        "envFrom": [
            {"prefix": "CM_", "configMapRef": {"name": "settings"}},
            {"prefix": "S_", "secretRef": {"name": "vault"}},
            {"configMapRef": {"name": "absent", "optional": True}},
        ],
        "resources": {"limits": {"cpu": "500m"}, "requests": {"memory": "64Mi"}},
        "securityContext": {"runAsUser": 1000, "runAsGroup": 2000},
        "volumeMounts": [
            {"name": "secret", "mountPath": "/secret"},
            {"name": "config", "mountPath": "/config"},
            {"name": "absent", "mountPath": "/absent"},
            {"name": "scratch", "mountPath": "/all"},
            {"name": "scratch", "mountPath": "/mine", "subPathExpr": "$(NAME)/logs"},
        ],
    }


def whole(runtime: str) -> Obj:
    manifest = pod("whole", "busybox", "")
    notes = {"orlop.dev/runtime": runtime, "example.com/note": "well"}
    manifest["metadata"] |= {"labels": {"app": "web"}, "annotations": notes}
    items = [{"key": "colour", "path": "deep/colour", "mode": 0o600}]
    manifest["spec"] |= {
        "hostname": "box",
        "subdomain": "sub",
        "setHostnameAsFQDN": True,
        "enableServiceLinks": False,
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.9.8.7"],
            "searches": ["a.example"],
            "options": [{"name": "ndots", "value": "3"}, {"name": "edns0"}],
        },
        "securityContext": {"fsGroup": 3000, "supplementalGroups": [4000]},
        "volumes": [
            {"name": "secret", "secret": {"secretName": "vault", "defaultMode": 0o400}},
            {"name": "config", "configMap": {"name": "settings", "items": items}},
            {"name": "absent", "secret": {"secretName": "absent", "optional": True}},
            {"name": "scratch", "emptyDir": {}},
        ],
        "containers": [
            looks(),
            {**member(), "resources": {"limits": {"memory": "128Mi"}}},
            {"name": "entry", "image": "busybox:entry"},
            {"name": "entry-args", "image": "busybox:entry", "args": ["other", "$(HOSTNAME)"]},
            {"name": "entry-env", "image": "busybox:entry", "command": ["env"]},
            {"name": "nonroot", "image": "busybox:nonroot"},
            {"name": "nonroot-pwd", "image": "busybox:nonroot", "command": ["pwd"]},
            {"name": "named", "image": "busybox:named-user"},
        ],
    }
    return manifest


def member(**fields: Obj) -> Obj:
    """Of the image's user `app`, whom the image has in the group `staff`."""
    context = {"securityContext": {"runAsUser": 1234}}
    return {"name": "member", "image": "busybox", "command": ["id", "-G"], **context, **fields}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_pod_is_told(site: Site, runtime: str) -> None:
    site.apply(with_objects(whole(runtime)))
    ended = site.wait_phase("whole", "Succeeded", "Failed")

    def said(container: str) -> str:
        return site.kubectl("logs", "whole", "-c", container)

    assert ended["status"]["phase"] == "Succeeded", said("main") + site.story("whole")
    told, _, found = said("main").partition("\n--\n")
    variables = dict(line.partition("=")[::2] for line in told.splitlines())
    assert {name: variables.get(name) for name in FIELDS} == {
        "NAME": "whole",
        "NAMESPACE": site.namespace,
        "UID": ended["metadata"]["uid"],
        "LABEL": "web",
        "NOTE": "well",
        "NODE": ended["spec"]["nodeName"],
        "ACCOUNT": "default",
        "POD_IP": ended["status"]["podIP"],
        "POD_IPS": ended["status"]["podIP"],
        "HOST_IP": ended["status"]["hostIP"],
        "HOST_IPS": ended["status"]["hostIP"],
    }
    assert {name: variables.get(name) for name in RESOURCES} == {
        name: amount for name, (_, amount) in RESOURCES.items()
    }
    assert variables["EXPANDED"] == f"whole in {site.namespace} $(NAME) $(NOBODY)"
    assert (variables["CM_colour"], variables["S_key"]) == ("blue", "hidden")
    assert "KUBERNETES_SERVICE_HOST" in variables
    assert "LINKS_SERVICE_HOST" not in variables
    assert found.splitlines() == [
        "/secret/key 440 3000",
        "/config/deep/colour 640 3000",
        "/all 2777 3000",
        "1000",
        "hidden",
        "blue",
        "deep",
        "x",
        f"box.sub.{site.namespace}.svc.cluster.local",
        "search a.example",
        "nameserver 10.9.8.7",
        "options ndots:3 edns0",
    ]
    assert sorted(said("member").split()) == ["1234", "3000", "4000", "50"]
    assert said("entry") == "entrypoint default words\n"
    assert said("entry-args") == "entrypoint other $(HOSTNAME)\n"
    assert {"GREETING=hello world", "COLON=a=b:c"} <= set(said("entry-env").splitlines())
    assert said("nonroot").startswith("uid=1234(app) gid=1234(app) ")
    assert said("nonroot-pwd") == "/home/app\n"
    assert said("named").startswith("uid=1234(app) gid=50(staff) ")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_groups_are_strict_and_chosen_exits_are_tried_again(site: Site, runtime: str) -> None:
    manifest = pod("strict", "busybox", "")
    manifest["metadata"]["annotations"] = {"orlop.dev/runtime": runtime}
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    tries = {
        "name": "tries",
        "image": "busybox",
        "command": ["sh", "-c", "[ -e /v/tried ] && exit 1; touch /v/tried; exit 42"],
        "restartPolicy": "Never",
        "restartPolicyRules": [rule],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    links = "echo $LINKS_SERVICE_PORT; cat /etc/resolv.conf"
    manifest["spec"] |= {
        "dnsPolicy": "Default",
        "securityContext": {"supplementalGroups": [4000], "supplementalGroupsPolicy": "Strict"},
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [
            member(),
            tries,
            {"name": "main", "image": "busybox", "command": ["sh", "-c", links]},
        ],
    }
    site.apply(with_objects(manifest))
    ended = site.wait_phase("strict", "Failed")
    assert sorted(site.kubectl("logs", "strict", "-c", "member").split()) == ["1234", "4000"]
    port, resolver = site.kubectl("logs", "strict", "-c", "main").split("\n", 1)
    assert port == "80"
    assert resolver == site.run("cat", "/etc/resolv.conf", node="n1").stdout
    status = next(s for s in ended["status"]["containerStatuses"] if s["name"] == "tries")
    assert (status["restartCount"], terminated(ended, "tries")["exitCode"]) == (1, 1)
    assert status["lastState"]["terminated"]["exitCode"] == 42


def test_a_privileged_container_is_refused_with_the_reason(site: Site) -> None:
    wish = {"securityContext": {"privileged": True}}
    site.apply(pod("mighty", "busybox", "true", container=wish))
    words = "privileged containers cannot be had: a Slurm job has no privileges on its node"
    eventually(lambda: words in site.kubectl("describe", "pod", "mighty"), words)
    [status] = site.pod("mighty")["status"]["containerStatuses"]
    waiting = status["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert f'spec.containers["main"].securityContext.privileged: {words}' in waiting["message"]
    assert site.squeue("%i") == [], "no job was asked for"
