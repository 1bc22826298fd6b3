"""`orlop up`, `status`, `doctor`, `down`, on the head of a real Slurm, and inside a job of it."""

from __future__ import annotations

import json

import pytest

from tests.e2e.site import Site, eventually, pod


def test_up_says_what_it_found_and_up_again_changes_nothing(own_site: Site) -> None:
    site = own_site
    before = site.control_plane()
    said = site.up()
    assert site.control_plane() == before
    assert "kubeconfig" in said
    status = site.run("orlop", "status").stdout
    version = site.run("sinfo", "--version").stdout.split()[-1]
    assert f"Slurm {version}" in status
    assert "main" in status


def test_down_leaves_pods_running_and_up_finds_them(own_site: Site) -> None:
    site = own_site
    site.apply(pod("steady", "busybox", "sleep 8; echo survived"))
    site.wait_phase("steady", "Running")
    site.down()
    refused = site.run("kubectl", "get", "pods", check=False)
    assert refused.returncode != 0
    assert len(site.squeue("%i")) == 1
    site.up()
    site.wait_phase("steady", "Succeeded")
    assert site.kubectl("logs", "steady") == "survived\n"


def test_purge_asks_first_and_then_removes_everything(own_site: Site) -> None:
    site = own_site
    site.apply(pod("doomed", "busybox", "sleep 600"))
    site.wait_phase("doomed", "Running")
    refused = site.run("orlop", "down", "--purge", input="n\n", check=False)
    assert refused.returncode != 0
    assert site.home.exists()
    site.run("orlop", "down", "--purge", "--yes")
    assert not site.home.exists()
    eventually(lambda: not site.squeue("%i"), "its jobs are gone")


def test_doctor_finds_a_healthy_site_healthy(site: Site) -> None:
    healthy = site.run("orlop", "doctor")
    assert healthy.returncode == 0, healthy.stdout


def test_doctor_names_the_remedy_for_a_dead_slurmctld(own_site: Site) -> None:
    site = own_site
    site.cluster.stop_slurmctld()
    sick = site.run("orlop", "doctor", check=False)
    site.cluster.start_slurmctld()
    assert sick.returncode != 0
    assert "slurmctld" in sick.stdout


@pytest.mark.timeout(180)
def test_the_control_plane_itself_may_be_a_slurm_job(own_site: Site) -> None:
    site = own_site
    site.down()
    said = site.run("orlop", "up", "--in-job", timeout=90).stdout
    assert "ssh" in said
    assert len(site.squeue("%i")) == 1
    site.apply(pod("inside", "busybox", "echo reached"))
    site.wait_phase("inside", "Succeeded")
    assert site.kubectl("logs", "inside") == "reached\n"
    status = json.loads(site.run("orlop", "status", "--output", "json").stdout)
    assert status
    site.down()
    eventually(lambda: not site.squeue("%i"), "the control plane's job has ended")
