"""Workloads: one mistake at a time, and what upstream says to it."""

from __future__ import annotations

from typing import Any

import pytest

from orlop.api import kinds
from orlop.api.kinds import Kind

from .objects import JOB_TEMPLATE, TEMPLATE, Obj, merged, on_create, on_update

SELECTED: Obj = {"spec": {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}}
JOB: Obj = {"spec": {"template": JOB_TEMPLATE}}
CRON: Obj = {
    "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": JOB_TEMPLATE}}}
}
CONTROLLER: Obj = {"spec": {"template": TEMPLATE}}
VALID: dict[Kind, Obj] = {
    kinds.DEPLOYMENT: SELECTED,
    kinds.REPLICA_SET: SELECTED,
    kinds.STATEFUL_SET: SELECTED,
    kinds.DAEMON_SET: SELECTED,
    kinds.REPLICATION_CONTROLLER: CONTROLLER,
    kinds.JOB: JOB,
    kinds.CRON_JOB: CRON,
}
MISMATCH = (
    'spec.template.metadata.labels: Invalid value: map[string]string{"app":"a"}: `selector` does '
    "not match template `labels`"
)


@pytest.mark.parametrize("kind", VALID, ids=lambda kind: kind.kind)
def test_valid_workloads(kind: Kind) -> None:
    assert on_create(kind, VALID[kind]) == []
    assert on_update(kind, VALID[kind], VALID[kind]) == []


def test_a_template_may_have_an_image_that_is_still_blank() -> None:
    blank = {"containers": [{"name": "c", "image": " "}]}
    assert (
        on_create(kinds.DEPLOYMENT, merged(SELECTED, {"spec": {"template": {"spec": blank}}})) == []
    )


def change(**spec: Any) -> Obj:
    return {"spec": spec}


COMMON: list[tuple[Obj, list[str]]] = [
    (change(selector=None), ["spec.selector: Required value"]),
    (change(selector={"matchLabels": {"app": "b"}}), [MISMATCH]),
    (
        change(
            selector={"matchLabels": None, "matchExpressions": [{"key": "app", "operator": "Near"}]}
        ),
        [
            'spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid '
            "selector operator"
        ],
    ),
    (
        change(template={"spec": {"restartPolicy": "Never"}}),
        [
            'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: '
            '"Always"'
        ],
    ),
    (
        change(template={"spec": {"containers": []}}),
        ["spec.template.spec.containers: Required value"],
    ),
    (
        change(template={"metadata": {"labels": {"app": "a", "-": ""}}}),
        ['spec.template.metadata.labels: Invalid value: "-"'],
    ),
]


@pytest.mark.parametrize(
    "kind",
    [kinds.DEPLOYMENT, kinds.REPLICA_SET, kinds.STATEFUL_SET, kinds.DAEMON_SET],
    ids=lambda kind: kind.kind,
)
@pytest.mark.parametrize(("wrong", "expected"), COMMON)
def test_what_all_that_select_pods_must_have(kind: Kind, wrong: Obj, expected: list[str]) -> None:
    check(on_create(kind, merged(SELECTED, wrong)), expected)


def check(found: list[str], expected: list[str]) -> None:
    assert len(found) == len(expected), found
    for one, start in zip(found, expected, strict=True):
        assert one.startswith(start), (one, start)


@pytest.mark.parametrize(
    ("kind", "wrong", "expected"),
    [
        (
            kinds.DEPLOYMENT,
            change(replicas=-1),
            ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            kinds.DEPLOYMENT,
            change(selector={"matchLabels": None}),
            ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
        (
            kinds.STATEFUL_SET,
            change(selector={"matchLabels": None}),
            ["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"],
        ),
        (
            kinds.DEPLOYMENT,
            change(template={"spec": {"activeDeadlineSeconds": 5}}),
            [
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in "
                "ReplicaSet is not Supported"
            ],
        ),
        (
            kinds.DEPLOYMENT,
            change(strategy={"type": "Sudden"}),
            [
                'spec.strategy.type: Unsupported value: "Sudden": supported values: "Recreate", '
                '"RollingUpdate"'
            ],
        ),
        (
            kinds.DEPLOYMENT,
            change(strategy={"type": "Recreate", "rollingUpdate": {}}),
            [
                "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` "
                "is 'Recreate'"
            ],
        ),
        (
            kinds.DEPLOYMENT,
            change(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            [
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when "
                "`maxSurge` is 0"
            ],
        ),
        (
            kinds.DEPLOYMENT,
            change(strategy={"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": "0%"}}),
            ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0'],
        ),
        (
            kinds.DEPLOYMENT,
            change(strategy={"rollingUpdate": {"maxUnavailable": "150%"}}),
            [
                'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "150%": must not be '
                "greater than 100%"
            ],
        ),
        (
            kinds.DEPLOYMENT,
            change(strategy={"rollingUpdate": {"maxSurge": "some"}}),
            [
                'spec.strategy.rollingUpdate.maxSurge: Invalid value: "some": a valid percent '
                "string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', "
                "regex used for validation is '[0-9]+%')"
            ],
        ),
        (
            kinds.DEPLOYMENT,
            change(minReadySeconds=700),
            [
                "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than "
                "minReadySeconds"
            ],
        ),
        (
            kinds.STATEFUL_SET,
            change(podManagementPolicy="Random"),
            [
                'spec.podManagementPolicy: Unsupported value: "Random": supported values: '
                '"OrderedReady", "Parallel"'
            ],
        ),
        (
            kinds.STATEFUL_SET,
            change(updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
            [
                'spec.updateStrategy.rollingUpdate: Invalid value: {"partition":1}: only allowed '
                "for updateStrategy 'RollingUpdate'"
            ],
        ),
        (
            kinds.STATEFUL_SET,
            change(updateStrategy={"rollingUpdate": {"partition": -1}}),
            ["spec.updateStrategy.rollingUpdate.partition: Invalid value: -1"],
        ),
        (
            kinds.STATEFUL_SET,
            change(persistentVolumeClaimRetentionPolicy={"whenScaled": "Burn"}),
            ['spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Burn"'],
        ),
        (
            kinds.DAEMON_SET,
            change(updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}),
            [
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when "
                "maxUnavailable is non-zero"
            ],
        ),
        (
            kinds.DAEMON_SET,
            change(updateStrategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            [
                "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 "
                "when maxSurge is 0"
            ],
        ),
        (kinds.REPLICATION_CONTROLLER, change(template=None), ["spec.selector", "spec.template"]),
        (kinds.REPLICATION_CONTROLLER, change(selector={"app": "b"}), [MISMATCH]),
        (
            kinds.JOB,
            change(parallelism=-1),
            ["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (kinds.JOB, change(backoffLimit=-1), ["spec.backoffLimit: Invalid value: -1"]),
        (
            kinds.JOB,
            change(template={"spec": {"restartPolicy": "Always"}}),
            [
                "spec.template.spec.restartPolicy: Required value: valid values: "
                '"OnFailure", "Never"'
            ],
        ),
        (
            kinds.JOB,
            change(template={"spec": {"restartPolicy": "Maybe"}}),
            [
                "spec.template.spec.restartPolicy: Unsupported value",
                "spec.template.spec.restartPolicy: Unsupported value",
            ],
        ),
        (
            kinds.JOB,
            change(completionMode="Indexed", parallelism=2),
            ["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            kinds.JOB,
            change(completionMode="Indexed", completions=1, parallelism=100001),
            ["spec.parallelism: Invalid value: 100001: must be less than or equal to 100000"],
        ),
        (kinds.CRON_JOB, change(timeZone="Etc/UTC"), []),
        (kinds.DEPLOYMENT, change(strategy={"type": "Recreate"}), []),
        (
            kinds.JOB,
            change(completionMode="Sorted"),
            [
                'spec.completionMode: Unsupported value: "Sorted": supported values: "NonIndexed", '
                '"Indexed"'
            ],
        ),
        (
            kinds.JOB,
            change(backoffLimitPerIndex=1),
            ["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
        ),
        (
            kinds.JOB,
            change(
                podFailurePolicy={"rules": []}, template={"spec": {"restartPolicy": "OnFailure"}}
            ),
            ['spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never"'],
        ),
        (
            kinds.JOB,
            change(selector={"matchLabels": {"batch.kubernetes.io/controller-uid": "stolen"}}),
            ["spec.template.metadata.labels: Invalid value", "spec.selector: Invalid value"],
        ),
        (kinds.JOB, change(manualSelector=True), ["spec.selector: Required value"]),
        (kinds.CRON_JOB, change(schedule=""), ["spec.schedule: Required value"]),
        (
            kinds.CRON_JOB,
            change(schedule="every day"),
            [
                'spec.schedule: Invalid value: "every day": expected exactly 5 fields, found 2: '
                "[every day]"
            ],
        ),
        (
            kinds.CRON_JOB,
            change(schedule="TZ=UTC * * * * *"),
            [
                'spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in '
                "schedule, use timeZone field instead"
            ],
        ),
        (
            kinds.CRON_JOB,
            change(timeZone="Mars/Olympus"),
            ['spec.timeZone: Invalid value: "Mars/Olympus": unknown time zone Mars/Olympus'],
        ),
        (kinds.CRON_JOB, change(timeZone=""), ['spec.timeZone: Invalid value: "": timeZone must']),
        (kinds.CRON_JOB, change(timeZone="Local"), ['spec.timeZone: Invalid value: "Local"']),
        (
            kinds.CRON_JOB,
            change(concurrencyPolicy="Queue"),
            [
                'spec.concurrencyPolicy: Unsupported value: "Queue": supported values: "Allow", '
                '"Forbid", "Replace"'
            ],
        ),
        (
            kinds.CRON_JOB,
            {"metadata": {"name": "x" * 53}},
            [f'metadata.name: Invalid value: "{"x" * 53}": must be no more than 52 characters'],
        ),
        (
            kinds.CRON_JOB,
            change(jobTemplate={"spec": {"selector": {}}}),
            [
                "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be "
                "auto-generated"
            ],
        ),
        (
            kinds.CRON_JOB,
            change(jobTemplate={"spec": {"template": {"spec": {"containers": []}}}}),
            ["spec.jobTemplate.spec.template.spec.containers: Required value"],
        ),
    ],
)
def test_bad_workloads(kind: Kind, wrong: Obj, expected: list[str]) -> None:
    check(on_create(kind, merged(VALID[kind], wrong)), expected)


IMMUTABLE = "field is immutable"
STATEFUL = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas'"
INDEXED = merged(JOB, change(completionMode="Indexed", completions=3, parallelism=3))


@pytest.mark.parametrize(
    ("kind", "old", "edit", "expected"),
    [
        (kinds.DEPLOYMENT, SELECTED, change(replicas=5), []),
        (
            kinds.DEPLOYMENT,
            SELECTED,
            change(
                selector={"matchLabels": {"app": "b"}},
                template={"metadata": {"labels": {"app": "b"}}},
            ),
            ["spec.selector: Invalid value"],
        ),
        (kinds.STATEFUL_SET, SELECTED, change(replicas=5), []),
        (
            kinds.STATEFUL_SET,
            SELECTED,
            change(template={"spec": {"containers": [{"name": "z", "image": "y"}]}}),
            [],
        ),
        (kinds.STATEFUL_SET, SELECTED, change(serviceName="other"), [STATEFUL]),
        (kinds.STATEFUL_SET, SELECTED, change(podManagementPolicy="Parallel"), [STATEFUL]),
        (kinds.JOB, merged(JOB, change(completions=1)), change(parallelism=4), []),
        (kinds.JOB, JOB, change(suspend=True), []),
        (kinds.JOB, JOB, change(completions=4), ["spec.completions: Invalid value: 4: field is"]),
        (
            kinds.JOB,
            JOB,
            change(template={"spec": {"containers": [{"name": "z", "image": "y"}]}}),
            ["spec.template: Invalid value"],
        ),
        (kinds.JOB, INDEXED, change(completions=5, parallelism=5), []),
        (kinds.JOB, INDEXED, change(completions=5), ["spec.completions: Invalid value: 5"]),
        (
            kinds.JOB,
            JOB,
            change(completionMode="Indexed"),
            ['spec.completionMode: Invalid value: "Indexed": field is immutable'],
        ),
        (
            kinds.JOB,
            merged(JOB, change(suspend=True)),
            change(template={"spec": {"nodeSelector": {"a": "b"}}}),
            [],
        ),
        (
            kinds.JOB,
            merged(JOB, change(suspend=True)),
            change(template={"spec": {"terminationGracePeriodSeconds": 5}}),
            ["spec.template: Invalid value"],
        ),
        (kinds.CRON_JOB, CRON, change(schedule="@daily", suspend=True), []),
    ],
)
def test_what_may_change_of_a_workload(
    kind: Kind, old: Obj, edit: Obj, expected: list[str]
) -> None:
    check(on_update(kind, merged(old, edit), old), expected)


def test_containers_of_a_stateful_set_may_mount_what_only_its_claims_name() -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    edit = change(
        template={"spec": {"containers": [{"name": "c", "image": "b", "volumeMounts": mounts}]}}
    )
    without = merged(SELECTED, edit)
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    assert on_create(kinds.STATEFUL_SET, merged(without, change(**claims))) == []
    assert "Not found" in str(on_create(kinds.STATEFUL_SET, without))


@pytest.mark.parametrize(("host_port", "is_good"), [(None, True), (80, True), (81, False)])
def test_ports_on_the_hosts_network_may_be_left_for_the_pods_to_say(
    host_port: int | None, is_good: bool
) -> None:
    port = {"containerPort": 80} | ({"hostPort": host_port} if host_port else {})
    container = {"name": "a", "image": "b", "ports": [port]}
    spec = {"hostNetwork": True, "containers": [container]}
    found = on_create(kinds.DEPLOYMENT, merged(SELECTED, {"spec": {"template": {"spec": spec}}}))
    assert [one for one in found if "hostPort" in one] == ([] if is_good else found)
    assert bool(found) is not is_good
