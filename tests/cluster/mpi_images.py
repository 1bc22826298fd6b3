"""Images with an MPI program and no more than it needs: `openmpi`, `mpich` and `intelmpi`.

Made when the registry's storage is prepared, from the machine's own packages and from Intel's: the
program is compiled here, and what it loads is copied beside busybox. The program, `/bin/pi`, works
pi out by all its ranks together; its arguments make it wait, or make one of its ranks fail.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from tools.devroot import DevRoot
from tools.intel_mpi import intel_mpi

from . import openmpi
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
    if (argc > 3) {
        MPI_Barrier(MPI_COMM_WORLD); /* all have said where they are, */
        usleep(500000);              /* and whoever ends them all has passed it on */
    }
    if (argc > 3 && atoi(argv[2]) == rank) {
        if (!strcmp(argv[1], "exit")) _exit(atoi(argv[3]));
        if (!strcmp(argv[1], "kill")) kill(getpid(), atoi(argv[3]));
    }
    if (argc > 3) sleep(60);
#if defined MPICH && !defined I_MPI_VERSION
    /* Debian's MPI_Finalize sometimes spins for ever on a crowded machine, by plain srun too. */
    MPI_Barrier(MPI_COMM_WORLD);
    _exit(0);
#endif
    MPI_Finalize();
    return 0;
}
"""

# Of Open MPI's parts: those for networks that no test has would bring a hundred libraries.
LEFT_OUT = re.compile("ofi|openib|ucx|psm|romio|flux|scoll|sshmem|memheap|monitoring|ompi_dbg")
INTEL = "/opt/intel/oneapi/mpi/2021.14"  # where Intel's own packages have it


def mpi_images(dev: DevRoot) -> dict[str, Image | Index]:
    base = base_layer()
    with tempfile.TemporaryDirectory(prefix="orlop-mpi-") as name:
        folder = Path(name)
        (folder / "pi.c").write_text(PROGRAM)
        with_openmpi, with_mpich = (_compiled(folder, kind) for kind in ("openmpi", "mpich"))
        return {
            "openmpi:latest": _image(base, _layer(with_openmpi, _openmpi_files())),
            "mpich:latest": _image(base, _layer(with_mpich, {})),
            "intelmpi:latest": _intel_image(base, folder, intel_mpi(dev)),
        }


def _image(*layers: Layer) -> Image:
    # What Debian's PMIx shares between ranks crashes on a crowded machine, by plain srun too.
    return Image(layers, {"Env": [PATH, "PMIX_MCA_gds=hash"], "Cmd": ["pi"]})


def _compiled(folder: Path, kind: str) -> Path:
    made = folder / f"pi-{kind}"
    command = [f"mpicc.{kind}", "-O1", "-o", str(made), str(folder / "pi.c")]
    subprocess.run(command, check=True, capture_output=True)
    return made


def _intel_image(base: Layer, folder: Path, source: Path) -> Image:
    """As Intel's own images: all of it in one folder, which the environment names."""
    program, library = folder / "pi-intel", source / "lib" / "libmpi.so.12"
    command = ["gcc", "-O1", "-I", source / "include", folder / "pi.c"]
    subprocess.run([*command, "-o", program, library], check=True, capture_output=True)
    files = sorted(path for path in source.rglob("*") if path.is_file() and path.suffix != ".h")
    builder = LayerBuilder().file("bin/pi", program.read_bytes(), 0o755)
    names = {path: f"{INTEL}/{path.relative_to(source)}" for path in files}
    names |= {path: str(path) for path in needed_by(files)}
    _add(builder, names)
    builder.link(f"{INTEL}/bin/mpiexec", "mpiexec.hydra")
    env = [
        PATH.replace("=", f"={INTEL}/bin:"),
        f"LD_LIBRARY_PATH={INTEL}/lib:{INTEL}/lib/libfabric",
        f"FI_PROVIDER_PATH={INTEL}/lib/libfabric/prov",
        f"I_MPI_ROOT={INTEL}",
    ]
    return Image((base, builder.build()), {"Env": env, "Cmd": ["pi"]})


def _openmpi_files() -> dict[Path, str]:
    parts = [path for path in openmpi.plugins() if not LEFT_OUT.search(path.name)]
    files = {path: str(path) for path in [*parts, *openmpi.settings()]}
    return files | {path: name for name, path in openmpi.programs().items()}


def _layer(program: Path, more: Mapping[Path, str]) -> Layer:
    builder = LayerBuilder().file("bin/pi", program.read_bytes(), 0o755)
    needed = {path: str(path) for path in needed_by([program, *more])}
    _add(builder, needed | dict(more))
    if "/usr/bin/mpirun" in more.values():
        builder.link("usr/bin/mpiexec", "mpirun")
    return builder.build()


def _add(builder: LayerBuilder, files: Mapping[Path, str]) -> None:
    """Files under their names in the image, with the folders that these are in."""
    made = {"/", "/bin", "/etc", "/usr", "/usr/bin"}
    for path, name in files.items():
        for folder in reversed(PurePosixPath(name).parents):
            if str(folder) not in made:
                made.add(str(folder))
                builder.folder(str(folder))
        builder.file(name, path.read_bytes(), path.stat().st_mode & 0o777)


def needed_by(programs: Iterable[Path]) -> list[Path]:
    """The libraries that are loaded with these, by the names under which they are looked for."""
    elves = [str(path) for path in programs if path.read_bytes()[:4] == b"\x7fELF"]
    told = subprocess.run(["ldd", *elves], capture_output=True, text=True, check=True).stdout
    return [Path(path) for path in dict.fromkeys(re.findall(r"(/\S+) \(0x", told))]
