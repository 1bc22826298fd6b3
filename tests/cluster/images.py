"""The images in the test registry, made from Debian's packages: busybox in variants, and python.

Called once on a machine, when the registry's storage is prepared. Each variant is there for one
thing that an image may ask of a runtime; their names are what tests use.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from tools.patched import library_folder
from tools.private_apt import PrivateApt

from .oci import Image, Index, Layer, LayerBuilder, machine_architecture

RELEASE = "bookworm"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NON_ROOT_UID = 1234

PASSWD = f"""\
root:x:0:0:root:/root:/bin/sh
app:x:{NON_ROOT_UID}:{NON_ROOT_UID}:app:/home/app:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
"""
GROUP = f"root:x:0:\napp:x:{NON_ROOT_UID}:\nstaff:x:50:app\nnogroup:x:65534:\n"


def basic_images() -> dict[str, Image | Index]:
    return busybox_images() | python_images()


def busybox_images() -> dict[str, Image | Index]:
    base = base_layer()
    shell = Image((base,), {"Env": [PATH], "Cmd": ["sh"]})
    other = Image((base,), {"Env": [PATH], "Cmd": ["false"]})
    foreign = "arm64" if machine_architecture() == "amd64" else "amd64"
    return {
        "busybox:latest": shell,
        "busybox:docker": Image((base,), shell.config, docker=True),
        "busybox:multiarch": Index({foreign: other, machine_architecture(): shell}),
        "busybox:entry": Image(
            (base,),
            {
                "Env": [PATH, "GREETING=hello world", "COLON=a=b:c"],
                "Entrypoint": ["/bin/echo", "entrypoint"],
                "Cmd": ["default", "words"],
            },
        ),
        "busybox:nonroot": Image(
            (base, LayerBuilder().folder("home/app", owner=NON_ROOT_UID).build()),
            {"Env": [PATH], "Cmd": ["id"], "User": str(NON_ROOT_UID), "WorkingDir": "/home/app"},
        ),
        "busybox:named-user": Image((base,), {"Env": [PATH], "Cmd": ["id"], "User": "app:staff"}),
        "busybox:layers": Image((base, *layers_with_whiteouts()), shell.config),
    }


def base_layer() -> Layer:
    builder = LayerBuilder()
    for name in ("bin", "dev", "etc", "home", "proc", "root", "sys", "usr", "usr/bin", "var"):
        builder.folder(name)
    builder.folder("tmp", 0o1777)
    builder.file("etc/passwd", PASSWD).file("etc/group", GROUP).file("etc/hostname", "image\n")
    busybox = Path("/bin/busybox")
    builder.file("bin/busybox", busybox.read_bytes(), 0o755)
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for name in applets.stdout.split():
        if name != "busybox":
            builder.link(f"bin/{name}", "busybox")
    return builder.build()


def layers_with_whiteouts() -> tuple[Layer, Layer]:
    """The upper layer removes data/dropped and all that was in opaque/, and replaces a link."""
    lower = LayerBuilder().folder("data").folder("opaque").folder("opaque/deep")
    lower.file("data/kept", "kept\n").file("data/dropped", "dropped\n").link("data/link", "dropped")
    lower.file("opaque/old", "old\n").file("opaque/deep/older", "older\n")
    lower.file("data/first", "one inode\n").hard_link("data/second", "data/first")
    upper = (
        LayerBuilder().without("data/dropped").without("data/link").file("data/link", "a file\n")
    )
    upper.nothing_below("opaque").file("opaque/new", "new\n")
    return lower.build(), upper.build()


def python_images() -> dict[str, Image | Index]:
    image = Image((base_layer(), python_layer()), {"Env": [PATH], "Cmd": ["python3"]})
    return {"python:latest": image, "python:3.11": image}


def python_layer() -> Layer:
    with tempfile.TemporaryDirectory(prefix="orlop-python-") as folder, PrivateApt(RELEASE) as apt:
        tree = Path(folder)
        apt.extract_with_dependencies(["python3"], tree)
        (tree / "usr" / "bin" / "python").symlink_to("python3")
        _compile(tree)
        return LayerBuilder().tree(tree, _is_left_out).build()


def _compile(tree: Path) -> None:
    """By the image's own Python: this machine's may be of another version."""
    library = next((tree / "usr" / "lib").glob("python3.*"))
    c_library = library_folder(tree)
    loader = [next(c_library.glob("ld-linux-*.so.*")), "--library-path", c_library]
    # The layer's files have no times of their own: Python must take its caches on trust.
    words = ["-m", "compileall", "-q", "-j", str(os.cpu_count() or 1)]
    words += ["--invalidation-mode", "unchecked-hash", str(library)]
    command = [*loader, tree / "usr" / "bin" / "python3", *words]
    home = {"PYTHONHOME": str(tree / "usr")}
    subprocess.run(command, check=True, capture_output=True, env=home)


def _is_left_out(name: Path) -> bool:
    return name.parts[:2] in {("usr", "share"), ("var", "lib")} or name.parts[:1] == ("sbin",)
