"""Requests go where the Ingress API says."""

from __future__ import annotations

import pytest

from orlop.api.objects import Key
from orlop.gateway.routing import IngressBackend, Routes, certificates, is_ours


def backend(name, port=80):
    return {"service": {"name": name, "port": {"number": port}}}


def an_ingress(*rules, name="i", created="2026-01-01T00:00:00Z", **spec):
    """Rules are (host, path, type, service)."""
    made = [
        {
            "host": host,
            "http": {"paths": [{"path": path, "pathType": kind, "backend": backend(service)}]},
        }
        for host, path, kind, service in rules
    ]
    return {
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": created},
        "spec": {"rules": made, **spec},
    }


ROUTES = Routes(
    [
        an_ingress(
            ("a.example", "/", "Prefix", "root"),
            ("a.example", "/api", "Prefix", "api"),
            ("a.example", "/api/v1", "Prefix", "v1"),
            ("a.example", "/api", "Exact", "exact"),
            ("*.b.example", "/", "Prefix", "wild"),
            ("c.b.example", "/only", "Exact", "precise"),
            ("", "/any", "ImplementationSpecific", "any"),
        )
    ]
)


@pytest.mark.parametrize(
    ("host", "path", "expected"),
    [
        ("a.example", "/", "root"),
        ("A.Example:8080", "/x", "root"),
        ("a.example", "/api", "exact"),
        ("a.example", "/api/", "api"),
        ("a.example", "/api/v1/pods", "v1"),
        ("a.example", "/apiv2", "root"),
        ("x.b.example", "/", "wild"),
        ("x.y.b.example", "/", None),
        ("b.example", "/", None),
        ("c.b.example", "/only", "precise"),
        ("c.b.example", "/other", "wild"),
        ("other.example", "/any/thing", "any"),
        ("other.example", "/", None),
    ],
)
def test_the_rule_that_fits_best_counts(host, path, expected):
    found = ROUTES.find(host, path)
    assert (found.service.name if found is not None else None) == expected


def test_the_default_is_for_what_no_rule_names():
    routes = Routes([an_ingress(("a", "/", "Prefix", "a"), defaultBackend=backend("rest", 8080))])
    assert routes.find("b", "/") == IngressBackend(Key("shop", "rest"), 8080)
    assert routes.find("a", "/").service.name == "a"


def test_of_two_equal_rules_the_older_wins():
    young = an_ingress(("a", "/", "Prefix", "young"), name="a", created="2026-02-01T00:00:00Z")
    old = an_ingress(("a", "/", "Prefix", "old"), name="b")
    assert Routes([young, old]).find("a", "/").service.name == "old"


OURS = {"metadata": {"name": "orlop"}, "spec": {"controller": "orlop.dev/ingress"}}
DEFAULT = {
    **OURS,
    "metadata": {
        "name": "orlop",
        "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"},
    },
}
NGINX = {"metadata": {"name": "nginx"}, "spec": {"controller": "k8s.io/ingress-nginx"}}


@pytest.mark.parametrize(
    ("ingress", "classes", "expected"),
    [
        (an_ingress(), [DEFAULT], True),
        (an_ingress(), [OURS], False),
        (an_ingress(ingressClassName="orlop"), [OURS, NGINX], True),
        (an_ingress(ingressClassName="nginx"), [DEFAULT, NGINX], False),
        (
            {"metadata": {"annotations": {"kubernetes.io/ingress.class": "orlop"}}, "spec": {}},
            [OURS],
            True,
        ),
    ],
    ids=["none, and ours is the default", "none", "ours", "another's", "as of old"],
)
def test_whose_an_ingress_is(ingress, classes, expected):
    assert is_ours(ingress, classes) is expected


def test_certificates_by_host():
    tls = [{"hosts": ["a.example", "B.example"], "secretName": "s"}, {"secretName": "rest"}, {}]
    found = certificates([an_ingress(tls=tls)])
    assert found == {
        "a.example": Key("shop", "s"),
        "b.example": Key("shop", "s"),
        "": Key("shop", "rest"),
    }
