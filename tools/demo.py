"""`make demo`: Orlop on a Slurm of several nodes, and the examples on it, with a commentary.

Run by the Makefile after set-up; `up` may be run again and again, `down` removes all that it made.
Everything is done by commands that a user would type, and printed as such.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time

from tools.stage import Completed, OwnCluster, Stage, copy_examples, find_stage, orlop_up

RULE = "─" * 78


class Stuck(Exception):
    """A command of the tour failed; the rest of it would only fail after it."""


class Demo:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.began = time.monotonic()

    # What it does

    def up(self) -> None:
        self.say(
            "A Slurm", "First a cluster. Nothing of this machine's own network or /etc changes."
        )
        print(f"    {self.stage.start()}", flush=True)
        copy_examples(self.stage)
        self.show("sinfo")
        self.say(
            "orlop up",
            "As an ordinary user, on the head node. It starts one process and submits nothing yet.",
        )
        self.report("orlop up", orlop_up(self.stage))
        self.show("kubectl get nodes")
        self.hello()
        self.job()
        self.deployment()
        self.small_ones()
        self.say("The end of the tour", "Each pod was a Slurm job of its own.")
        self.show("kubectl get pods -o wide")
        self.show("squeue -o '%.6i %.9P %.32j %.2t %.6M %N'")
        self.farewell()

    def hello(self) -> None:
        self.say("A pod", "It becomes a Slurm job under its own name; Slurm chooses the node.")
        self.apply("hello")
        self.wait("pod/hello", "jsonpath={.status.phase}=Succeeded")
        self.show("kubectl get pod hello -o wide")
        self.show("kubectl logs hello")
        self.show("kubectl slurm script hello")

    def job(self) -> None:
        self.say("A Job", "Twenty pieces of work, eight at a time, over all nodes.")
        self.apply("job")
        self.progress("pieces", 20)
        self.show("kubectl get job pieces")

    def deployment(self) -> None:
        self.say("A Deployment", "Six pods that stay. Slurm spreads them.")
        self.apply("deployment")
        self.show("kubectl rollout status deployment/keepers --timeout=60s")
        self.show("kubectl get pods -l app=keepers -o wide")
        self.show("squeue -o '%.6i %.9P %.32j %.2t %.6M %N'")

    def small_ones(self) -> None:
        self.say(
            "And the rest", "Configuration, init containers, no container at all, sbatch's options."
        )
        pods = {
            "configuration": "configured",
            "init": "prepared",
            "host": "on-the-host",
            "slurm": "short-work",
        }
        self.apply(*pods)
        for pod in pods.values():
            self.wait(f"pod/{pod}", "jsonpath={.status.phase}=Succeeded")
            self.show(f"kubectl logs {pod}")

    def farewell(self) -> None:
        took = time.monotonic() - self.began
        print(f"\n{RULE}\nAll of it worked, in {took:.0f} s, and stays up. To go on:\n")
        print(f"    {self.stage.shell()}")
        print("    export KUBECONFIG=$(orlop kubeconfig)")
        print("    kubectl get pods -o wide; squeue\n")
        print("`make demo-down` removes all of it.")

    # How it speaks

    def say(self, title: str, words: str) -> None:
        print(f"\n{RULE}\n{title}\n\n{textwrap.fill(words, 78)}\n", flush=True)

    def show(self, line: str) -> str:
        """Runs a line of shell as the user, and prints it with what it said."""
        done = self.stage.run(["bash", "-c", _with_kubeconfig(line)])
        self.report(line, done)
        return str(done.stdout)

    def apply(self, *names: str) -> None:
        """An example that has changed since an earlier demo replaces what that one made."""
        files = " ".join(f"-f examples/{name}.yaml" for name in names)
        line = f"kubectl apply {files}"
        done = self.stage.run(["bash", "-c", _with_kubeconfig(line)])
        if done.returncode and "is invalid" in done.stderr:
            self.show(f"kubectl replace --force {files}")
        else:
            self.report(line, done)

    def report(self, line: str, done: Completed) -> None:
        output = f"{done.stdout}{done.stderr}".rstrip()
        print(f"$ {line}\n{textwrap.indent(output, '    ')}\n", flush=True)
        if done.returncode:
            raise Stuck(line)

    def quiet(self, line: str) -> str:
        return self.stage.run(["bash", "-c", _with_kubeconfig(line)]).stdout.strip()

    def wait(self, what: str, condition: str) -> None:
        line = f"kubectl wait {what} --for={condition} --timeout=60s"
        done = self.stage.run(["bash", "-c", _with_kubeconfig(line)])
        if done.returncode:
            self.show(f"kubectl describe {what}")
            self.report(line, done)

    def progress(self, job: str, pieces: int) -> None:
        """A line a second: what the Job says, and what the queue says."""
        shown = False
        for _ in range(120):
            path = "{.status.succeeded}/{.status.active}"
            succeeded, _, active = self.quiet(
                f"kubectl get job {job} -o jsonpath='{path}'"
            ).partition("/")
            queue = self.quiet("squeue -h -o %T | sort | uniq -c")
            counts = ", ".join(" ".join(line.split()) for line in queue.splitlines()) or "empty"
            print(
                f"    {succeeded or 0:>2} of {pieces} done, {active or 0} active   squeue: {counts}"
            )
            sys.stdout.flush()
            if succeeded == str(pieces):
                return
            if not shown and re.search("RUNNING", counts):
                self.show("kubectl get pods -o wide")
                self.show("squeue -o '%.6i %.9P %.32j %.2t %.6M %N'")
                shown = True
            time.sleep(1)
        self.show(f"kubectl describe job {job}")
        raise Stuck(f"the job {job} did not end within two minutes")


def _with_kubeconfig(line: str) -> str:
    return f'export KUBECONFIG="${{ORLOP_HOME:-$HOME/.orlop}}/kubeconfig"; {line}'


def down(stage: Stage) -> int:
    if isinstance(stage, OwnCluster) and not stage.is_up:
        stage.stop()
        print("nothing of the demo is left")
        return 0
    done = stage.run(["orlop", "down", "--purge", "--yes"])
    print(done.stdout + done.stderr, end="")
    stage.run(["rm", "-rf", "examples"])
    stage.stop()
    print("the demo is removed")
    return 0


def main() -> int:
    stage = find_stage(os.environ.get("ORLOP_DEMO", "demo"))
    if sys.argv[1:] == ["down"]:
        return down(stage)
    try:
        Demo(stage).up()
    except Stuck as stuck:
        print(f"{RULE}\nThis failed: {stuck}\n`make demo-down` removes what there is.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
