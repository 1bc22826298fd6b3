"""The doctor says when the cluster's ranges are the site's own."""

from __future__ import annotations

from orlop.cli.doctor_checks.network import networks_in, ranges
from orlop.settings import NetworkSettings, Settings

ROUTES = """\
Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT
eth0\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
ib0\t0000600A\t00000000\t0001\t0\t0\t0\t0000F0FF\t0\t0\t0
eth0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""


def examined(tmp_path, resolv_conf="nameserver 192.0.2.1\n", **network):
    (tmp_path / "route").write_text(ROUTES)
    (tmp_path / "resolv.conf").write_text(resolv_conf)
    settings = Settings(network=NetworkSettings(**network))
    return list(ranges(settings, tmp_path / "route", tmp_path / "resolv.conf"))


def test_routes_are_read_without_the_default():
    assert [str(one) for one in networks_in(ROUTES)] == ["10.96.0.0/12", "192.168.0.0/24"]


def test_a_range_that_the_site_uses_is_noted_with_what_to_do(tmp_path):
    pods, services = examined(tmp_path)
    assert (pods.level, services.level) == ("ok", "note")
    assert "10.96.0.0/16 overlaps with 10.96.0.0/12" in services.found
    assert "network.service_range" in services.remedy


def test_a_range_that_holds_the_sites_name_server_is_noted(tmp_path):
    pods, _ = examined(tmp_path, "nameserver 10.244.3.1\nnameserver ::1\n")
    assert "10.244.3.1/32" in pods.found


def test_free_ranges_are_well(tmp_path):
    found = examined(tmp_path, service_range="172.31.0.0/16")
    assert [one.level for one in found] == ["ok", "ok"]
