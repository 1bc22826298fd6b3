"""Fixtures of the pod network's tests."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path

import pytest

from ..kubelet_double import KubeletDouble
from .neighbourhood import Neighbourhood


@contextlib.contextmanager
def running_kubelet():
    folder = Path(tempfile.mkdtemp(prefix="orlop-kubelet-", dir="/tmp"))
    kubelet = KubeletDouble(folder)
    yield kubelet
    kubelet.stop()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def kubelet_for_module():
    with running_kubelet() as kubelet:
        yield kubelet


@pytest.fixture
def neighbourhood(make_pod):
    with running_kubelet() as kubelet:
        yield Neighbourhood(kubelet, make_pod)
