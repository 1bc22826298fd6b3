"""Images with a real OpenMPI and a real MPICH, and a small program in each that knows its answer.

Made of this machine's own packages when a scenario first wants them: the launchers, the daemons,
the plug-ins and every library these need, over busybox. A user of its own, as the images have that
the MPI operator's examples run.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.cluster import openmpi
from tests.cluster.images import GROUP, PASSWD, PATH, base_layer
from tests.cluster.oci import Image, LayerBuilder

USER = "mpiuser:x:1000:1000:mpi:/home/mpiuser:/bin/sh\n"
# Each rank adds its number plus one to a sum that all get: n ranks have n * (n + 1) / 2.
SOURCE = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank, size, one, sum = 0;
    int *given, *taken;
    char host[256];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gethostname(host, sizeof host);
    /* Everyone with everyone: what is still connecting when ranks end may hang MPICH. */
    given = calloc(size, sizeof(int));
    taken = calloc(size, sizeof(int));
    for (one = 0; one < 2; one++)
        MPI_Alltoall(given, 1, MPI_INT, taken, 1, MPI_INT, MPI_COMM_WORLD);
    one = rank + 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s: sum %d\n", rank, size, host, sum);
    fflush(stdout);
    if (argc > 1) sleep(atoi(argv[1]));
#ifdef MPICH
    /* Debian's 4.0 may not come back where ranks talk by TCP: some spin in UCX, waiting for others
       to close, which wait for all in PMI. By mpiexec alone, on one host, 10 of 40 runs did. */
    alarm(15);
#endif
    MPI_Finalize();
    return 0;
}
"""


def openmpi_image() -> Image:
    programs = {name: str(path) for name, path in openmpi.programs().items()}
    texts = [*openmpi.messages(), *openmpi.settings()]
    return _image("openmpi", programs, openmpi.plugins(), texts)


def mpich_image() -> Image:
    hydra = {"/usr/bin/mpirun": "mpiexec.hydra", "/usr/bin/hydra_pmi_proxy": "hydra_pmi_proxy"}
    programs = {name: f"/usr/bin/{source}" for name, source in hydra.items()}
    return _image("mpich", programs, [], [])


@functools.cache
def _compiled(flavour: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="orlop-mpi-") as folder:
        source, program = Path(folder, "sum.c"), Path(folder, "sum")
        source.write_text(SOURCE)
        subprocess.run([f"mpicc.{flavour}", "-O1", "-o", program, source], check=True)
        return program.read_bytes()


def _image(
    flavour: str, programs: dict[str, str], plugins: Iterable[Path], texts: Iterable[Path]
) -> Image:
    builder = LayerBuilder().folder("home/mpiuser", owner=1000)
    builder.file("etc/passwd", PASSWD + USER).file("etc/group", GROUP + "mpiuser:x:1000:\n")
    builder.file("home/mpiuser/sum", _compiled(flavour), 0o755).link("home/mpiuser/pi", "sum")
    for name, source in programs.items():
        builder.file(name, Path(source).resolve().read_bytes(), 0o755)
    found = [str(plugin) for plugin in plugins]
    with tempfile.NamedTemporaryFile() as program:
        program.write(_compiled(flavour))
        program.flush()
        libraries = needed([*programs.values(), *found, program.name])
    for path in sorted({*found, *libraries}):
        builder.file(path, Path(path).resolve().read_bytes(), 0o755)
    for text in texts:
        builder.file(str(text), text.read_bytes())
    # What PMIx 5 shares between ranks is a file of the node's, which a container does not see.
    env = [PATH, "PMIX_MCA_gds=hash"]
    return Image((base_layer(), builder.build()), {"Env": env})


def needed(programs: list[str]) -> set[str]:
    """The libraries that the loader would take, under the names it looks for."""
    told = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    words = (word for line in told.splitlines() if ":" not in line for word in line.split())
    return {word for word in words if word.startswith("/") and Path(word).is_file()}
