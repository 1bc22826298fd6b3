"""Images with an MPI program and no more than it needs: `openmpi:latest` and `mpich:latest`.

Made when the registry's storage is prepared, from the machine's own packages: the program is
compiled here, and what it loads is copied beside busybox. The program, `/bin/pi`, works pi out by
all its ranks together; its arguments make it wait, or make one of its ranks fail.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .images import PATH, base_layer
from .oci import Image, Index, Layer, LayerBuilder

PROGRAM = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* pi [sleep SECONDS] [exit RANK CODE] [kill RANK SIGNAL] */
int main(int argc, char **argv) {
    int rank, size, n = 100000, i;
    double sum = 0, all;
    char host[256];
    struct timeval now;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gethostname(host, sizeof host);
    for (i = rank; i < n; i += size) {
        double x = (i + 0.5) / n;
        sum += 4 / (1 + x * x);
    }
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        gettimeofday(&now, NULL);
        printf("ready %ld.%06ld\n", (long)now.tv_sec, (long)now.tv_usec);
        printf("pi %.6f\n", all / n);
    }
    printf("rank %d of %d on %s\n", rank, size, host);
    fflush(stdout);
    if (argc > 2 && !strcmp(argv[1], "sleep")) sleep(atoi(argv[2]));
    if (argc > 3 && atoi(argv[2]) == rank) {
        if (!strcmp(argv[1], "exit")) _exit(atoi(argv[3]));
        if (!strcmp(argv[1], "kill")) kill(getpid(), atoi(argv[3]));
    }
    if (argc > 3) sleep(60);
#ifdef MPICH
    /* Debian's MPI_Finalize sometimes spins for ever on a crowded machine, by plain srun too. */
    MPI_Barrier(MPI_COMM_WORLD);
    _exit(0);
#endif
    MPI_Finalize();
    return 0;
}
"""

LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
# Of Open MPI's parts: those for networks that no test has would bring a hundred libraries.
LEFT_OUT = re.compile("ofi|openib|ucx|psm|romio|flux|scoll|sshmem|memheap|monitoring|ompi_dbg")
MORE = ("/etc/openmpi/openmpi-mca-params.conf", "/usr/bin/orterun", "/usr/bin/orted")


def mpi_images() -> dict[str, Image | Index]:
    base = base_layer()
    with tempfile.TemporaryDirectory(prefix="orlop-mpi-") as name:
        folder = Path(name)
        (folder / "pi.c").write_text(PROGRAM)
        openmpi, mpich = (_compiled(folder, kind) for kind in ("openmpi", "mpich"))
        parts = [path for path in _parts() if not LEFT_OUT.search(path.name)]
        programs = [Path(path) for path in MORE]
        return {
            "openmpi:latest": _image(base, _layer(openmpi, [*parts, *programs])),
            "mpich:latest": _image(base, _layer(mpich, [])),
        }


def _image(*layers: Layer) -> Image:
    # What Debian's PMIx shares between ranks crashes on a crowded machine, by plain srun too.
    return Image(layers, {"Env": [PATH, "PMIX_MCA_gds=hash"], "Cmd": ["pi"]})


def _compiled(folder: Path, kind: str) -> Path:
    made = folder / f"pi-{kind}"
    command = [f"mpicc.{kind}", "-O1", "-o", str(made), str(folder / "pi.c")]
    subprocess.run(command, check=True, capture_output=True)
    return made


def _parts() -> list[Path]:
    folders = (LIBRARIES / "openmpi/lib/openmpi3", LIBRARIES / "pmix2/lib/pmix")
    return sorted(path for folder in folders for path in folder.glob("*.so"))


def _layer(program: Path, more: list[Path]) -> Layer:
    builder = LayerBuilder().file("bin/pi", program.read_bytes(), 0o755)
    files = dict.fromkeys([*more, *needed_by([program, *more])])
    made: set[str] = {"bin", "etc", "usr", "usr/bin"}
    for path in files:
        for folder in reversed(path.parent.parts and path.parents):
            name = str(folder).strip("/")
            if name not in {*made, "", "."}:
                made.add(name)
                builder.folder(name)
        builder.file(str(path), path.read_bytes(), path.stat().st_mode & 0o777)
    if Path("/usr/bin/orterun") in files:
        for name in ("mpirun", "mpiexec"):
            builder.link(f"usr/bin/{name}", "orterun")
    return builder.build()


def needed_by(programs: Iterable[Path]) -> list[Path]:
    """The libraries that are loaded with these, by the names under which they are looked for."""
    elves = [str(path) for path in programs if path.read_bytes()[:4] == b"\x7fELF"]
    told = subprocess.run(["ldd", *elves], capture_output=True, text=True, check=True).stdout
    return [Path(path) for path in dict.fromkeys(re.findall(r"(/\S+) \(0x", told))]
