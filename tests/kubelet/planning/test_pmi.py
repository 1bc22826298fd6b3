"""Which PMI an image speaks, and what of it srun offers."""

from __future__ import annotations

import pytest

from orlop.errors import EngineUnavailable
from orlop.kubelet.planning.pmi import Pmi, kinds_in, spoken_in

OLD = """\
MPI plugin types are...
\tpmix
\tnone
\tcray_shasta
\tpmi2
specific pmix plugin versions available: pmix_v4
"""
ALL = frozenset({"pmix", "none", "cray_shasta", "pmi2"})


def test_the_kinds_of_pmi_are_read_from_what_srun_lists():
    assert kinds_in(OLD) == ALL
    assert kinds_in("srun: MPI types are...\nsrun: none\nsrun: pmi2\n") == {"none", "pmi2"}


@pytest.mark.parametrize(
    ("library", "kinds"),
    [
        ("usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4", ("pmix",)),
        ("opt/openmpi/lib/libmpi.so.40", ("pmix",)),
        ("usr/lib/aarch64-linux-gnu/libmpich.so.12", ("pmi2",)),
        ("opt/intel/oneapi/mpi/2021.9/lib/release/libmpi.so.12", ("pmi2",)),
        ("usr/lib64/mpich/lib/libmpi.so.12.2.0", ("pmi2",)),
        ("usr/lib/libc.so.6", ()),
    ],
)
def test_the_names_of_its_libraries_tell_whose_mpi_an_image_has(tmp_path, library, kinds):
    path = tmp_path / library
    path.parent.mkdir(parents=True)
    path.touch()
    assert spoken_in(tmp_path) == kinds


@pytest.mark.parametrize(
    ("listed", "expected"), [(OLD, "pmix"), ("\tnone\n\tpmi2\n", ""), (None, "pmix")]
)
async def test_a_kind_is_taken_if_srun_offers_it_or_does_not_answer(tmp_path, listed, expected):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libmpi.so.40").touch()
    asked = []

    async def offered():
        asked.append(1)
        if listed is None:
            raise EngineUnavailable("no slurmctld")
        return listed

    pmi = Pmi(offered)
    assert [await pmi.of_image(tmp_path), await pmi.of_image(tmp_path)] == [expected] * 2
    assert len(asked) == (2 if listed is None else 1)
