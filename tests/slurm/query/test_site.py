"""What sinfo, sacctmgr and scontrol print of a site."""

from __future__ import annotations

from orlop.slurm.query import site


def test_partitions() -> None:
    text = "main|main*|up|infinite|1:00:00|1-2|1/3/0/4|7/25/0/32|all|n[1-4]\ngarbled\n"
    assert site.parse_partitions(text) == {
        "main": {
            "name": "main",
            "default": True,
            "availability": "up",
            "maxTime": "infinite",
            "defaultTime": "1:00:00",
            "jobSize": "1-2",
            "nodes": {"allocated": 1, "idle": 3, "other": 0, "total": 4},
            "cpus": {"allocated": 7, "idle": 25, "other": 0, "total": 32},
            "groups": "all",
            "nodeList": "n[1-4]",
        }
    }


def test_accounts() -> None:
    text = "research||high,normal|normal|1|10||1-00:00:00|||\nteaching|short|normal||1||||||\n"
    found = site.parse_accounts(text, "research")
    assert found["research"] == {
        "name": "research",
        "default": True,
        "qos": ["high", "normal"],
        "defaultQOS": "normal",
        "fairshare": "1",
        "maxJobs": "10",
        "maxWall": "1-00:00:00",
    }
    assert found["teaching-short"]["partition"] == "short"


def test_qos() -> None:
    found = site.parse_qos("high|100|low|DenyOnLimit|2:00:00|node=2|cpu=8|4||||1.000000\n")
    assert found["high"]["priority"] == 100
    assert found["high"]["preempts"] == ["low"]
    assert (found["high"]["maxTRES"], found["high"]["maxTRESPerUser"]) == ("node=2", "cpu=8")


def test_reservations() -> None:
    text = (
        "ReservationName=maint StartTime=1794755000 EndTime=1794758600 Duration=01:00:00 "
        "Nodes=n[1-2] NodeCnt=2 CoreCnt=16 Features=(null) PartitionName=main Flags=MAINT "
        "TRES=cpu=16 Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE\n"
    )
    found = site.parse_reservations(text)["maint"]
    assert (found["nodeList"], found["nodes"], found["state"]) == ("n[1-2]", 2, "INACTIVE")
    assert found["startTime"].endswith("Z")
    assert "accounts" not in found
    assert site.parse_reservations("No reservations in the system\n") == {}
