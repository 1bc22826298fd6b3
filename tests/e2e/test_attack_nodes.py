"""Hostile pods and other users of the nodes, against what Orlop does there with its owner's rights.

Each attack is made on a real cluster, by a pod in its sandbox or by an unprivileged second user.
What another user can see of Orlop's files and processes is taken as known.
"""

from __future__ import annotations

import base64
import json
import subprocess
import tarfile
import time

from tests.cluster.fixtures import StartRegistry
from tests.cluster.oci import Image, Layer
from tests.e2e.site import HEAD, Obj, Site, eventually, pod
from tools.devroot import PLAIN_USER

LONG = 120.0


def python(name: str, program: str, **spec: object) -> Obj:
    made = pod(name, "python", "", terminationGracePeriodSeconds=0, **spec)
    made["spec"]["containers"][0]["command"] = ["python3", "-u", "-c", program]
    return made


def folder_of(site: Site, name: str) -> str:
    uid = site.pod(name)["metadata"]["uid"]
    return str(site.home / "pods" / f"{site.namespace}_{name}_{uid}")


# Numbered lines, some faster than any disk; then one without an end.
FLOOD = """
import sys, time
for first in range(0, 120_000, 4000):
    sys.stdout.write("".join(f"{n} {'x' * 400}\\n" for n in range(first, first + 4000)))
    sys.stdout.flush()
    time.sleep(0.1)
time.sleep(1)
print("done")
for _ in range(20):
    sys.stderr.write("y" * 1_000_000)
sys.stderr.write("\\n")
time.sleep(1)
print("end")
"""


def test_output_without_an_end_is_kept_to_its_last_and_followed_without_a_gap(site: Site) -> None:
    """Some 55 MB of lines and 20 MB without a newline; 50 MiB may be kept."""
    site.apply(python("flood", FLOOD, restartPolicy="Never"))
    site.wait_phase("flood", "Running", timeout=LONG)
    argv = ["kubectl", "-n", site.namespace, "logs", "-f", "flood"]
    numbers = []
    with site.popen(*argv, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout
        for line in follower.stdout:
            if line.startswith("done"):
                follower.kill()
                break
            numbers.append(int(line.split()[0]))
    assert numbers == list(range(120_000))
    site.wait_phase("flood", "Succeeded", timeout=LONG)
    folder = folder_of(site, "flood") + "/logs"
    used = int(site.run("du", "-sb", "--apparent-size", folder).stdout.split()[0])
    assert used < 51 << 20
    assert int(site.run("sh", "-c", f"ls {folder}/*/ | wc -l").stdout) == 5
    assert site.kubectl("logs", "--tail=1", "flood") == "end\n"
    kept = site.kubectl("logs", "--tail=100000", "flood").splitlines()
    lines = [int(line.split()[0]) for line in kept if line[:1].isdigit()]
    assert lines == list(range(lines[0], 120_000))
    assert len(lines) > 40_000


# Forks as often as it can, and says every second how many there are.
BOMB = """
import os, time
children = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(3600)
        children += 1
    except OSError as error:
        print(children, error, flush=True)
        time.sleep(1)
"""


def test_a_fork_bomb_takes_its_own_pod_alone(site: Site) -> None:
    """All processes of the node are one user's; the limit of the test's site is 1500 a pod."""
    on_node = {"metadata": {"annotations": {"slurm.orlop.dev/nodelist": "n1"}}}
    bomb, other = python("bomb", BOMB), pod("other", "busybox", "sleep 600")
    for manifest in (bomb, other):
        manifest["metadata"] |= on_node["metadata"]
        site.apply(manifest)
    site.wait_phase("bomb", "Running", timeout=LONG)
    said = eventually(lambda: site.kubectl("logs", "bomb").splitlines(), "it cannot fork", LONG)
    assert 1000 < int(said[0].split()[0]) < 1500
    assert "unavailable" in said[0]
    site.wait_phase("other", "Running", timeout=LONG)
    assert site.kubectl("exec", "other", "--", "sh", "-c", "true | echo fine") == "fine\n"
    began = time.monotonic()
    site.kubectl("delete", "pod", "bomb", "--timeout=60s")
    assert time.monotonic() - began < 60
    count = "ps -eo args | grep -c '[c]hildren = 0'"
    left = lambda: site.run("sh", "-c", count, node="n1", check=False).stdout.strip()  # noqa: E731
    eventually(lambda: left() == "0", "none of them is left", LONG)
    site.kubectl("delete", "pod", "other", "--grace-period=1")


FILES = """
import itertools
for number in itertools.count():
    open(f"/flood/{number}", "w").close()
"""


def test_files_without_contents_are_against_the_limit_of_their_volume(site: Site) -> None:
    manifest = python("inodes", FILES, restartPolicy="Never")
    manifest["spec"]["volumes"] = [{"name": "flood", "emptyDir": {"sizeLimit": "4Mi"}}]
    mounts = [{"name": "flood", "mountPath": "/flood"}]
    manifest["spec"]["containers"][0]["volumeMounts"] = mounts
    site.apply(manifest)
    found = site.wait_phase("inodes", "Failed", timeout=LONG)
    assert found["status"]["reason"] == "Evicted"
    assert 'EmptyDir volume "flood" exceeds the limit "4Mi"' in found["status"]["message"]


# Has the agent read, and write, what the container may not: by links where it has its own files.
WISHES = """
import os, sys, time
secret, target = sys.argv[1:]
os.chdir("/g")
fd = os.open("7.say", os.O_RDWR | os.O_NONBLOCK)
os.symlink(secret, "7.ask")
with open("ring", "w") as ring:
    ring.write("7\\n")
time.sleep(3)
try:
    print("heard", os.read(fd, 9999).decode())
except BlockingIOError:
    print("heard nothing")
for name in ("8.out", "8.err", "8.say"):
    os.unlink(name)
    os.symlink(target, name)
with open("8.ask", "w") as ask:
    ask.write("nosuchhost\\necho taken")
with open("ring", "w") as ring:
    ring.write("8\\n")
time.sleep(3)
print("end")
"""


def test_a_container_has_its_agent_read_and_write_nothing_for_it(site: Site) -> None:
    """What starts commands in other pods is a folder of the container's, used by the agent."""
    manifest = python("wishes", "import time; time.sleep(600)")
    manifest["metadata"]["annotations"] = {"orlop.dev/group": "mine"}
    manifest["spec"]["volumes"] = [{"name": "orlop-group", "emptyDir": {}}]
    mounts = [{"name": "orlop-group", "mountPath": "/g"}]
    manifest["spec"]["containers"][0]["volumeMounts"] = mounts
    site.apply(manifest)
    site.wait_phase("wishes", "Running", timeout=LONG)
    token = f"{folder_of(site, 'wishes')}/token"
    secret = site.run("cat", token).stdout
    victim = str(site.home / "victim")
    site.run("sh", "-c", f"echo kept > {victim}")
    said = site.kubectl(
        "exec", "wishes", "--", "python3", "-c", WISHES, token, victim, timeout=LONG
    )
    assert said.splitlines() == ["heard nothing", "end"]
    assert secret
    assert secret not in said
    assert site.run("cat", victim).stdout == "kept\n"
    assert site.kubectl("exec", "wishes", "--", "echo", "still") == "still\n"


# Listens as a registry would, and keeps what it is asked.
REGISTRY = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("asked", self.path, dict(self.headers), flush=True)
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic realm=x")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 5005), Handler)
print("ready", flush=True)
server.serve_forever()
"""


def test_a_stranger_on_loopback_is_nobodys_registry(site: Site) -> None:
    """Neither an image is taken from there, nor a login told."""
    login = {"auths": {"localhost:5005": {"auth": base64.b64encode(b"ann:s3cret").decode()}}}
    data = {".dockerconfigjson": base64.b64encode(json.dumps(login).encode()).decode()}
    kind = "kubernetes.io/dockerconfigjson"
    secret = {"apiVersion": "v1", "kind": "Secret", "type": kind, "data": data}
    site.apply({**secret, "metadata": {"name": "login"}})
    command = ["python3", "-u", "-c", REGISTRY]
    stranger = site.cluster.popen(HEAD, command, user=PLAIN_USER, stdout=subprocess.PIPE, text=True)
    try:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "ready\n"
        secrets = [{"name": "login"}]
        site.apply(pod("local", "localhost:5005/app", "true", imagePullSecrets=secrets))
        told = lambda: [m for _, m in site.events("local") if "in the loopback range" in m]  # noqa: E731
        assert (
            "images.insecure_registries of config.yaml" in eventually(told, "it says why", LONG)[0]
        )
    finally:
        stranger.kill()
    with stranger:
        assert "asked" not in stranger.stdout.read()


# In the place of tar: sends an archive that leads out of the folder it is unpacked in.
TAR = r"""#!/usr/bin/env python3
import io, sys, tarfile
out = tarfile.open(fileobj=sys.stdout.buffer, mode="w|")
def add(name, **more):
    info = tarfile.TarInfo(name)
    for key, value in more.items():
        setattr(info, key, value)
    info.size = 0 if info.type != tarfile.REGTYPE else 7
    out.addfile(info, io.BytesIO(b"escaped"))
add("data/plain")
add("data/../../escaped-up")
add("../../../../../../%(outside)s/escaped-far")
add("%(outside)s/escaped-absolute")
add("data/way", type=tarfile.SYMTYPE, linkname="%(outside)s")
add("data/way/escaped-by-link")
add("data/hard", type=tarfile.LNKTYPE, linkname="%(home)s/kubeconfig")
add("data/hard")
out.close()
"""


def test_nothing_is_copied_out_of_a_pod_to_where_nobody_asked(site: Site) -> None:
    """By `kubectl cp`, of a container whose tar is no tar."""
    folder = site.run("mktemp", "-d").stdout.strip()
    outside, target = f"{folder}/outside", f"{folder}/deep/target"
    site.run("mkdir", "-p", outside, target)
    tar = TAR % {"outside": outside, "home": site.home}
    script = f"""
import os, time
open("/usr/local/bin/tar", "w").write({tar!r})
os.chmod("/usr/local/bin/tar", 0o755)
print("ready")
time.sleep(300)
"""
    site.apply(python("sender", script))
    site.wait_phase("sender", "Running", timeout=LONG)
    eventually(lambda: site.kubectl("logs", "sender"), "its tar is in place")
    before = site.run("cat", f"{site.home}/kubeconfig").stdout
    copied = site.run("kubectl", "-n", site.namespace, "cp", "sender:/data", target, check=False)
    found = site.run("find", folder, "-type", "f").stdout.split()
    assert [path for path in found if not path.startswith(target)] == [], copied
    assert site.run("cat", f"{site.home}/kubeconfig").stdout == before
    site.kubectl("get", "pod", "sender")


def layer_of(size: int) -> Layer:
    """A tiny layer with a file that is nothing but a hole."""
    info = tarfile.TarInfo("hole")
    real = {"name": "hole", "size": str(size), "map": f"{size},0", "major": "0", "minor": "1"}
    info.pax_headers = {f"GNU.sparse.{name}": text for name, text in real.items()}
    return Layer.of(info.tobuf(tarfile.PAX_FORMAT))


def test_an_image_that_becomes_more_than_it_may_is_told_on_the_pod(
    site: Site, registry_on: StartRegistry
) -> None:
    registry = registry_on(site.cluster)
    registry.push("bomb:latest", Image((layer_of(1 << 45),), {"Cmd": ["x"]}))
    site.apply(pod("bomb", "bomb", "true"))
    told = lambda: [m for _, m in site.events("bomb") if "images.max_size" in m]  # noqa: E731
    assert "is larger than" in eventually(told, "it says why", LONG)[0]
    left = site.run("ls", str(site.home / "images/tmp")).stdout
    assert left == ""


def test_a_pipe_as_an_image_stops_nobody(site: Site) -> None:
    """The control plane looks at it, and would wait there for ever."""
    pipe = site.home / "pipe"
    site.run("mkfifo", str(pipe))
    site.apply(pod("pipe", str(pipe), "true"))
    told = lambda: [m for _, m in site.events("pipe") if "expected a SIF" in m]  # noqa: E731
    eventually(told, "it says why", LONG)
    assert site.kubectl("get", "--raw", "/readyz") == "ok"


# As many connections that speak nonsense as there can be in some seconds.
FLOODS = """
import socket, sys, time
words = [b"GET / HTTP/9.9\\r\\n\\r\\n", b"\\x16\\x03\\x01" + b"x" * 300 + b"\\r\\n\\r\\n",
         b"GET / HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: -1\\r\\n\\r\\n"]
until, made = time.monotonic() + 6, 0
while time.monotonic() < until:
    for port in map(int, sys.argv[1:]):
        try:
            with socket.create_connection(("127.0.0.1", port), 2) as sock:
                sock.sendall(words[made % len(words)])
                made += 1
                sock.recv(10)
        except OSError:
            pass
print(made)
"""


def test_a_strangers_nonsense_is_little_in_the_log(site: Site) -> None:
    log = site.home / "log/orlop.log"
    before = int(site.run("stat", "-c", "%s", str(log)).stdout)
    api = site.control_plane()["url"].rpartition(":")[2]
    argv = ["python3", "-c", FLOODS, "8080", api]
    made = site.cluster.run(HEAD, argv, user=PLAIN_USER, timeout=LONG).stdout
    assert int(made) > 300, "the attack was made"
    said = site.run("tail", "-c", f"+{before + 1}", str(log)).stdout
    nonsense = [line for line in said.splitlines() if "aiohttp" in line or "asyncio" in line]
    assert len(nonsense) < 200
    assert sum(map(len, nonsense)) < 40_000
