"""The test cluster by hand: `python -m tests.cluster up`, and then `shell`, `run`, `down`.

Used by developers and by the demo. A cluster started here outlives the command; its folder,
named by --root, is all that a later command needs to find it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from tools.devroot import dev_root

from .cluster import SlurmCluster
from .commands import CommandFailed
from .spec import HEAD, Spec
from .state import is_cluster


def main() -> int:
    options = parser().parse_args()
    try:
        code: int = options.act(options)
    except (CommandFailed, LookupError, RuntimeError, OSError) as error:
        print(f"tests.cluster: {error}", file=sys.stderr)
        return 1
    return code


def parser() -> argparse.ArgumentParser:
    default = os.environ.get("ORLOP_CLUSTER") or dev_root().clusters / "default"
    top = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    top.add_argument("--root", type=Path, default=Path(default), help="its folder (%(default)s)")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    _add_up(commands.add_parser("up", help="start a cluster, unless it runs already"))
    _add_run(commands.add_parser("run", help="run a command on a node"))
    shell = commands.add_parser("shell", help="a shell of the cluster's user, on the head")
    shell.set_defaults(act=run, node=HEAD, user=None, argv=["bash"])
    for name, help_text in (("power-off", "cut a node's power"), ("power-on", "boot it again")):
        power = commands.add_parser(name, help=help_text)
        power.add_argument("node")
        power.set_defaults(act=power_off if name == "power-off" else power_on)
    for name, act, help_text in (
        ("status", status, "nodes and jobs, as Slurm sees them"),
        ("stop-slurmctld", stop_slurmctld, "stop Slurm's controller"),
        ("start-slurmctld", start_slurmctld, "start it again"),
        ("down", down, "end everything and remove the folder"),
    ):
        commands.add_parser(name, help=help_text).set_defaults(act=act)
    return top


def _add_up(command: argparse.ArgumentParser) -> None:
    spec = Spec()
    command.add_argument("--nodes", type=int, default=spec.nodes)
    command.add_argument("--user", default=spec.user, help="whose cluster it is (%(default)s)")
    command.add_argument("--accounting", action="store_true", help="slurmdbd and MariaDB")
    command.add_argument("--rest", action="store_true", help="slurmrestd")
    command.add_argument("--cgroups", action="store_true", help="memory and device limits")
    command.add_argument("--gpus", type=int, default=0, help="fake GPUs on n1 and n2 each")
    command.add_argument("--runtimes", default=",".join(spec.runtimes), help="(%(default)s)")
    command.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a line of slurm.conf"
    )
    command.set_defaults(act=up)


def _add_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("--user", help="root, or any user; the cluster's own by default")
    command.add_argument("node", help="head, n1, n2, …")
    command.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND")
    command.set_defaults(act=run)


def _on(options: argparse.Namespace) -> SlurmCluster:
    return SlurmCluster.attach(options.root)


def up(options: argparse.Namespace) -> int:
    if is_cluster(options.root) and _on(options).nodes[HEAD].is_on:
        print(f"already up in {options.root}")
        return status(options)
    spec = Spec(
        nodes=options.nodes,
        user=options.user,
        accounting=options.accounting,
        rest=options.rest,
        cgroups=options.cgroups,
        gpus=options.gpus,
        runtimes=tuple(filter(None, options.runtimes.split(","))),
        settings=dict(line.split("=", 1) for line in options.set),
    )
    began = time.monotonic()
    SlurmCluster(options.root, spec).start(outlive=True)
    print(f"up in {time.monotonic() - began:.1f} s, in {options.root}")
    return status(options)


def run(options: argparse.Namespace) -> int:
    cluster = _on(options)
    user = options.user or cluster.user
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    term = {"TERM": os.environ["TERM"]} if "TERM" in os.environ else {}
    child = cluster.popen(options.node, argv, user=None if user == "root" else user, env=term)
    # The terminal sends its signals to the command too: it decides when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number))
    code = child.wait()
    return code if code >= 0 else 128 - code


def power_off(options: argparse.Namespace) -> int:
    _on(options).power_off(options.node)
    return 0


def power_on(options: argparse.Namespace) -> int:
    _on(options).power_on(options.node)
    return 0


def stop_slurmctld(options: argparse.Namespace) -> int:
    _on(options).stop_slurmctld()
    return 0


def start_slurmctld(options: argparse.Namespace) -> int:
    _on(options).start_slurmctld()
    return 0


def status(options: argparse.Namespace) -> int:
    cluster = _on(options)
    for command in (["sinfo"], ["squeue"]):
        print(cluster.run(HEAD, command).stdout, end="")
    return 0


def down(options: argparse.Namespace) -> int:
    if not options.root.exists():
        print(f"no cluster in {options.root}")
        return 0
    _on(options).stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
