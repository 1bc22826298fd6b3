"""As whom a container runs follows from contexts, the image's USER and the image's accounts."""

from __future__ import annotations

import pytest

from orlop.kubelet.planning.refusal import Refusal
from orlop.kubelet.planning.users import Accounts, User, container_user

from ..objects import UID, a_container, a_pod

ACCOUNTS = Accounts(
    passwd="root:x:0:0:root:/root:/bin/sh\nweb:x:1000:100:::\n\nbroken\napp:x:2000:2000:::\n",
    group="root:x:0:\nusers:x:100:\nvideo:x:44:web,app\nkvm:x:45:app\n",
)


def user(image_user="", container=None, **pod):
    spec = a_container(securityContext=container or {})
    return container_user(a_pod(spec, securityContext=pod), spec, image_user, ACCOUNTS)


@pytest.mark.parametrize(
    ("image_user", "expected"),
    [
        ("", User(0, 0)),
        ("root", User(0, 0)),
        ("0", User(0, 0)),
        ("web", User(1000, 100, (44,))),
        ("1000", User(1000, 100, (44,))),
        ("app", User(2000, 2000, (44, 45))),
        ("4242", User(4242, 0)),
        ("4242:7", User(4242, 7)),
        ("web:kvm", User(1000, 45, (44,))),
        ("4242:users", User(4242, 100)),
    ],
)
def test_the_images_user_counts_where_nothing_else_is_said(image_user, expected):
    assert user(image_user) == expected


@pytest.mark.parametrize(
    ("pod", "container", "expected"),
    [
        ({"runAsUser": 1234}, {}, User(1234, 0)),
        ({"runAsUser": 1234}, {"runAsUser": 0}, User(0, 0)),
        ({"runAsUser": 1000}, {}, User(1000, 100, (44,))),
        ({"runAsUser": 1234, "runAsGroup": 5}, {}, User(1234, 5)),
        ({"runAsGroup": 5}, {"runAsGroup": 6}, User(2000, 6, (44, 45))),
        ({"supplementalGroups": [7, 8], "fsGroup": 9}, {}, User(2000, 2000, (7, 8, 9, 44, 45))),
        ({"supplementalGroups": [44]}, {}, User(2000, 2000, (44, 45))),
        (
            {"supplementalGroups": [7], "supplementalGroupsPolicy": "Strict"},
            {},
            User(2000, 2000, (7,)),
        ),
    ],
)
def test_contexts_come_before_the_image_and_the_containers_before_the_pods(
    pod, container, expected
):
    assert user("app", container, **pod) == expected


@pytest.mark.parametrize(("image_user", "word"), [("nobody", "user"), ("1:nobody", "group")])
def test_a_name_that_the_image_does_not_know_is_refused(image_user, word):
    with pytest.raises(Refusal, match=f"unable to find {word} nobody") as refused:
        user(image_user)
    assert refused.value.reason == "CreateContainerError"


WHO = f'(pod: "web_default({UID})", container: main)'


@pytest.mark.parametrize(
    ("image_user", "pod", "words"),
    [
        ("", {}, f"container has runAsNonRoot and image will run as root {WHO}"),
        ("0:5", {}, f"container has runAsNonRoot and image will run as root {WHO}"),
        (
            "web",
            {},
            "container has runAsNonRoot and image has non-numeric user (web), "
            f"cannot verify user is non-root {WHO}",
        ),
        ("1000", {"runAsUser": 0}, f"container's runAsUser breaks non-root policy {WHO}"),
    ],
)
def test_root_is_refused_in_upstreams_words_where_it_is_not_wanted(image_user, pod, words):
    with pytest.raises(Refusal) as refused:
        user(image_user, runAsNonRoot=True, **pod)
    assert refused.value.message == words
    assert refused.value.reason == "CreateContainerConfigError"


def test_who_is_not_root_passes():
    assert user("1000", runAsNonRoot=True).uid == 1000
    assert user("web", {"runAsUser": 5}, runAsNonRoot=True).uid == 5
    assert user("", {"runAsNonRoot": False}, runAsNonRoot=True).uid == 0
