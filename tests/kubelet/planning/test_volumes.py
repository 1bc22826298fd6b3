"""Volumes become files, folders and paths; mounts say where."""

from __future__ import annotations

import base64

import pytest

from orlop.kubelet.planning.refusal import Refusal
from orlop.kubelet.planning.sources import Sources, TokenWish
from orlop.kubelet.planning.volumes import planned_mounts, planned_volumes, trusted, unmet_options

from ..objects import NODE, a_container, a_pod


def b64(text):
    return base64.b64encode(text.encode()).decode()


SOURCES = Sources(
    "default",
    {"settings": {"data": {"a": "1", "b": "2"}, "binaryData": {"c": b64("3")}}},
    {"vault": {"data": {"k": b64("secret")}}},
    {TokenWish("", 3600): "t-api", TokenWish("vault", 7200): "t-vault"},
    {"v": {"metadata": {"name": "pv"}, "spec": {"hostPath": {"path": "/data"}}}},
    {"v": "/images/models"},
)


def planned(**source):
    pod = a_pod(
        a_container(resources={"limits": {"cpu": "2"}}),
        volumes=[{"name": "v", **source}],
        metadata={"labels": {"x": "y"}},
    )
    return planned_volumes(pod, SOURCES, NODE)[0]


def files(**source):
    volume = planned(**source)
    assert (volume["name"], volume["kind"]) == ("v", "files")
    return {
        file["path"]: (base64.b64decode(file["data"]).decode(), file["mode"])
        for file in volume["files"]
    }


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"emptyDir": {}}, {"kind": "emptyDir", "medium": "", "sizeLimit": None}),
        (
            {"emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
            {"kind": "emptyDir", "medium": "Memory", "sizeLimit": 64 << 20, "limit": "64Mi"},
        ),
        ({}, {"kind": "emptyDir", "medium": "", "sizeLimit": None}),
        ({"hostPath": {"path": "/data"}}, {"kind": "hostPath", "path": "/data", "type": ""}),
        (
            {"nfs": {"server": "filer", "path": "/x", "readOnly": True}},
            {"kind": "nfs", "server": "filer", "path": "/x", "readOnly": True},
        ),
        ({"image": {"reference": "models:1"}}, {"kind": "image", "path": "/images/models"}),
        (
            {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
            {"kind": "hostPath", "path": "/data", "type": "", "readOnly": True},
        ),
        (
            {"hostPath": {"path": "/f", "type": "File"}},
            {"kind": "hostPath", "path": "/f", "type": "File"},
        ),
    ],
)
def test_folders_and_paths_are_named(source, expected):
    assert planned(**source) == {"name": "v", **expected}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"configMap": {"name": "settings"}},
            {"a": ("1", 0o644), "b": ("2", 0o644), "c": ("3", 0o644)},
        ),
        (
            {
                "configMap": {
                    "name": "settings",
                    "defaultMode": 0o400,
                    "items": [
                        {"key": "a", "path": "x/y"},
                        {"key": "b", "path": "z", "mode": 0o600},
                    ],
                }
            },
            {"x/y": ("1", 0o400), "z": ("2", 0o600)},
        ),
        ({"secret": {"secretName": "vault", "defaultMode": 0}}, {"k": ("secret", 0)}),
        ({"configMap": {"name": "none", "optional": True}}, {}),
        ({"secret": {"secretName": "none", "optional": True}}, {}),
        (
            {
                "configMap": {
                    "name": "settings",
                    "optional": True,
                    "items": [{"key": "none", "path": "n"}, {"key": "a", "path": "a"}],
                }
            },
            {"a": ("1", 0o644)},
        ),
        (
            {
                "downwardAPI": {
                    "items": [
                        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                        {
                            "path": "cpu",
                            "mode": 0o440,
                            "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"},
                        },
                    ]
                }
            },
            {"labels": ('x="y"', 0o644), "cpu": ("2", 0o440)},
        ),
    ],
    ids=["all keys", "items and modes", "secret", "optional map", "optional secret",
         "optional key", "downward"],
)  # fmt: skip
def test_maps_secrets_and_fields_become_files(source, expected):
    assert files(**source) == expected


def test_a_projected_volume_lays_its_sources_over_each_other():
    sources = [
        {"configMap": {"name": "settings", "items": [{"key": "a", "path": "p"}]}},
        {"secret": {"name": "vault", "items": [{"key": "k", "path": "p"}]}},
        {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"serviceAccountToken": {"path": "token"}},
    ]
    found = files(projected={"defaultMode": 0o440, "sources": sources})
    assert found == {"p": ("secret", 0o440), "n": ("web", 0o440), "token": ("t-api", 0o440)}


def token_file(*containers, **spec):
    asked = {"path": "token", "audience": "vault", "expirationSeconds": 7200}
    volume = {"name": "v", "projected": {"sources": [{"serviceAccountToken": asked}]}}
    pod = a_pod(*(containers or [a_container()]), volumes=[volume], **spec)
    [file] = planned_volumes(pod, SOURCES, NODE)[0]["files"]
    assert base64.b64decode(file.pop("data")) == b"t-vault"
    return file


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {"mode": 0o644}),
        ({"securityContext": {"runAsUser": 7}}, {"mode": 0o600, "uid": 7}),
        ({"securityContext": {"fsGroup": 9}}, {"mode": 0o640, "gid": 9}),
        (
            {"securityContext": {"runAsUser": 7, "fsGroup": 9}},
            {"mode": 0o640, "uid": 7, "gid": 9},
        ),
    ],
)
def test_a_token_is_for_the_pods_user_or_group_alone(spec, expected):
    assert token_file(**spec) == {"path": "token", **expected}


@pytest.mark.parametrize(
    "source",
    [
        {"secret": {"secretName": "vault", "defaultMode": 0o400}},
        {"configMap": {"name": "settings", "items": [{"key": "a", "path": "a", "mode": 0o200}]}},
        {
            "downwardAPI": {
                "items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}],
                "defaultMode": 0,
            }
        },
        {"projected": {"sources": [{"secret": {"name": "vault"}}], "defaultMode": 0o400}},
    ],
    ids=lambda source: next(iter(source)),
)
def test_a_group_of_the_pod_may_read_every_file(source):
    """As upstream: given to the group, which may read whatever the modes say."""
    pod = a_pod(volumes=[{"name": "v", **source}], securityContext={"fsGroup": 9})
    own = a_pod(volumes=[{"name": "v", **source}])
    [shared], [alone] = (planned_volumes(one, SOURCES, NODE)[0]["files"] for one in (pod, own))
    assert shared == {**alone, "gid": 9, "mode": alone["mode"] | 0o440}
    assert "gid" not in alone


@pytest.mark.parametrize(
    ("more", "expected"),
    [({}, None), ({"user": 5}, 5), ({"user": 0}, 0)],
    ids=["nobody in particular", "one", "root"],
)
def test_a_file_is_whose_it_says(more, expected):
    items = {"items": [{"key": "k", "path": "k", **more}]}
    secret = {"secretName": "vault", **items}
    for source, of_all in (
        ({"secret": secret}, None),
        ({"secret": secret | {"defaultUser": 7}}, 7),
    ):
        [file] = planned(**source)["files"]
        assert file.get("uid") == (of_all if expected is None else expected)


def test_a_token_of_containers_with_several_users_can_be_read_by_all():
    mixed = [
        a_container("a", securityContext={"runAsUser": 1}),
        a_container("b", securityContext={"runAsUser": 2}),
    ]
    assert token_file(*mixed)["mode"] == 0o644
    same = [a_container(name, securityContext={"runAsUser": 1}) for name in "ab"]
    assert token_file(*same) == {"path": "token", "mode": 0o600, "uid": 1}


def test_a_token_that_was_not_issued_is_a_failed_mount():
    source = {"serviceAccountToken": {"path": "token", "audience": "unheard-of"}}
    with pytest.raises(Refusal, match="no token of the service account"):
        planned(projected={"sources": [source]})


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        (
            {"configMap": {"name": "settings", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent config key: z",
        ),
        (
            {"secret": {"secretName": "vault", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent secret key: z",
        ),
    ],
)
def test_what_is_missing_leaves_the_pod_waiting_with_upstreams_words(source, words):
    with pytest.raises(Refusal) as refused:
        planned(**source)
    assert refused.value.message == f'MountVolume.SetUp failed for volume "v" : {words}'
    assert (refused.value.reason, refused.value.event) == ("ContainerCreating", "FailedMount")


def test_mounts_say_where_and_how():
    container = a_container(
        volumeMounts=[
            {"name": "v", "mountPath": "/v", "readOnly": True},
            {"name": "w", "mountPath": "/w", "subPath": "a/b"},
            {"name": "x", "mountPath": "/x", "subPathExpr": "logs/$(POD)"},
        ]
    )
    assert planned_mounts(container, {"POD": "web-0"}) == [
        {"volume": "v", "path": "/v", "readOnly": True, "subPath": ""},
        {"volume": "w", "path": "/w", "readOnly": False, "subPath": "a/b"},
        {"volume": "x", "path": "/x", "readOnly": False, "subPath": "logs/web-0"},
    ]


@pytest.mark.parametrize("value", [None, "../up", "/abs", "a/../../b"])
def test_a_sub_path_may_not_lead_out_of_its_volume(value):
    container = a_container(volumeMounts=[{"name": "x", "mountPath": "/x", "subPathExpr": "$(P)"}])
    with pytest.raises(Refusal, match="subPath"):
        planned_mounts(container, {} if value is None else {"P": value})


OURS = {"annotations": {"pv.kubernetes.io/provisioned-by": "orlop.dev/folder"}}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (
            {"metadata": OURS, "spec": {"hostPath": {"path": "/r/c/data", "type": "Directory"}}},
            {"kind": "folder", "path": "/r/c/data", "fsGroup": 7, "fsGroupPolicy": "Always"},
        ),
        (
            {"metadata": {}, "spec": {"local": {"path": "/l"}}},
            {"kind": "hostPath", "path": "/l", "type": "", "fsGroup": 7, "fsGroupPolicy": "Always"},
        ),
        (
            {"metadata": {}, "spec": {"nfs": {"server": "s", "path": "/e"}}},
            {"kind": "nfs", "server": "s", "path": "/e", "readOnly": False},
        ),
    ],
    ids=["of ours", "local", "nfs"],
)
def test_a_claim_is_what_its_volume_is(volume, expected):
    pod = a_pod(
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        securityContext={"fsGroup": 7},
    )
    (planned,) = planned_volumes(pod, Sources(volumes={"v": volume}), NODE)
    assert planned == {"name": "v", **expected}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"csi": {"driver": "x"}}, "persistent volume pv is of csi, which needs a driver"),
        ({"volumeMode": "Block", "local": {"path": "/dev/x"}}, "block devices"),
    ],
)
def test_a_volume_that_nobody_here_can_mount_is_refused(spec, words):
    pod = a_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    sources = Sources(volumes={"v": {"metadata": {"name": "pv"}, "spec": spec}})
    with pytest.raises(Refusal, match=words):
        planned_volumes(pod, sources, NODE)


def test_mount_options_of_a_volume_are_not_passed_over_in_silence():
    spec = {"nfs": {"server": "s", "path": "/"}, "mountOptions": ["hard"]}
    sources = Sources(volumes={"v": {"metadata": {"name": "pv"}, "spec": spec}})
    (words,) = unmet_options(sources)
    assert "mountOptions of persistent volume pv are not applied" in words
    assert unmet_options(SOURCES) == []


def certificate(text):
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----"


def bundle(name, *texts, signer="", **labels):
    body = "\n".join(certificate(text) for text in texts)
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"signerName": signer, "trustBundle": f"words before\n{body}\n"},
    }


BUNDLES = [
    bundle("plain", "A"),
    bundle("s:1", "B", "A", signer="s", tier="x"),
    bundle("s:2", "B", "C", signer="s", tier="y"),
]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"name": "plain"}, "A"),
        ({"name": "s:1"}, "AB"),
        ({"signerName": "s", "labelSelector": {}}, "ABC"),
        ({"signerName": "s", "labelSelector": {"matchLabels": {"tier": "y"}}}, "BC"),
        ({"signerName": "s"}, None),
        ({"signerName": "other", "labelSelector": {}}, None),
        ({"name": "none"}, None),
    ],
)
def test_bundles_of_certificates_are_chosen_and_each_is_there_once(source, expected):
    found = trusted(source, BUNDLES)
    joined = None if expected is None else "".join(f"{certificate(t)}\n" for t in expected)
    assert found == joined


def test_a_bundle_becomes_a_file_or_a_failed_mount():
    source = {"name": "plain", "path": "ca.pem"}
    volume = {"name": "v", "projected": {"sources": [{"clusterTrustBundle": source}]}}
    pod = a_pod(volumes=[volume])
    (made,) = planned_volumes(pod, Sources(trust_bundles=BUNDLES), NODE)
    assert [file["path"] for file in made["files"]] == ["ca.pem"]
    with pytest.raises(Refusal, match='clustertrustbundle "plain" not found'):
        planned_volumes(pod, Sources(), NODE)
    source["optional"] = True
    assert planned_volumes(pod, Sources(), NODE)[0]["files"] == []


def test_one_secret_in_thousands_of_files_is_refused():
    large = Sources("default", {}, {"vault": {"data": {"k": b64("x" * (1 << 20))}}}, {}, {}, {})
    items = [{"key": "k", "path": f"file-{number}"} for number in range(5000)]
    volumes = [{"name": "v", "secret": {"secretName": "vault", "items": items}}]
    with pytest.raises(Refusal, match="more than 64 MiB"):
        planned_volumes(a_pod(a_container(), volumes=volumes), large, NODE)
    assert len(planned_volumes(a_pod(a_container(), volumes=[
        {"name": f"v{n}", "secret": {"secretName": "vault"}} for n in range(64)
    ]), large, NODE)) == 64  # fmt: skip


def test_a_path_that_no_file_can_have_is_refused():
    mount = {"name": "v", "mountPath": "/v", "subPathExpr": "$(A)$(A)"}
    with pytest.raises(Refusal, match="longer than 4096"):
        planned_mounts(a_container(volumeMounts=[mount]), {"A": "a" * 4096})
