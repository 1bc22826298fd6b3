"""One job runs a pod, and the same job again after a requeue."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from orlop.agent.pod import claim


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "claim")


def test_a_claim_says_who_has_it(path):
    claim.take(path, "17", 0, "n1")
    with open(path) as file:
        assert json.load(file) == {"job": "17", "restart": 0, "node": "n1"}


def test_another_job_is_refused_with_the_owners_name(path):
    claim.take(path, "17", 0, "n1")
    with pytest.raises(claim.Claimed, match="job 17 on n1 already; job 18 ends here"):
        claim.take(path, "18", 0, "n2")


def test_a_requeued_job_renews_its_claim(path):
    claim.take(path, "17", 0, "n1")
    claim.take(path, "17", 1, "n2")
    with open(path) as file:
        assert json.load(file)["node"] == "n2"


def test_nothing_is_left_beside_the_claim(tmp_path, path):
    claim.take(path, "17", 0, "n1")
    claim.take(path, "17", 1, "n1")
    with pytest.raises(claim.Claimed):
        claim.take(path, "18", 0, "n1")
    assert [entry.name for entry in tmp_path.iterdir()] == ["claim"]


def test_of_many_at_once_one_wins(path):
    code = (
        "import sys; from orlop.agent.pod import claim\n"
        "try: claim.take(sys.argv[1], sys.argv[2], 0, 'n'); print('mine')\n"
        "except claim.Claimed: print('theirs')"
    )
    jobs = [
        subprocess.Popen([sys.executable, "-c", code, path, str(job)], stdout=subprocess.PIPE)
        for job in range(8)
    ]
    words = sorted(job.communicate()[0].decode().strip() for job in jobs)
    assert words == ["mine", *["theirs"] * 7]
