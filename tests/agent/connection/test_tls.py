"""The line home by the C module under `ssl`, and by `ssl` itself where that has another shape."""

from __future__ import annotations

import _ssl
import json
import socket
import ssl

import pytest

from orlop import pki, wellknown
from orlop.agent.connection.frames import Broken
from orlop.agent.connection.tls import Plain, Tls, WantMore
from orlop.agent.connection.upgraded_connection import dial as dial_home

from ..kubelet_double import KubeletDouble


@pytest.fixture
def kubelet(tmp_path):
    double = KubeletDouble(tmp_path / "kubelet")
    yield double
    double.stop()


@pytest.fixture(params=["light", "by the book", "with other arguments"])
def shape(request, monkeypatch):
    """Of the C module."""
    if request.param == "by the book":
        monkeypatch.delattr(_ssl, "_SSLContext")
    elif request.param == "with other arguments":
        monkeypatch.setattr(_ssl, "_SSLContext", lambda: None)
    return request.param


def dial(kubelet, ca=None, name=wellknown.AGENT_SERVER_NAME):
    raw = Plain(socket.AF_INET, socket.SOCK_STREAM)
    raw.settimeout(30.0)
    raw.connect(("127.0.0.1", kubelet.port))
    return Tls(raw, str(ca or kubelet.plan["ca"]), name)


def answer_of(line):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += line.recv(4096)
    return head


def test_both_ways_speak_and_hear(kubelet, shape):
    line = dial(kubelet)
    try:
        line.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert answer_of(line) == b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
        agent = kubelet.agent()
        line.setblocking(False)
        with pytest.raises(WantMore):
            line.recv(1)
        line.setblocking(True)
        agent.tell(type="welcome")
        assert json.loads(line.recv(4096)[8:]) == {"type": "welcome"}
        agent.close()
        assert line.recv(1) == b""
    finally:
        line.close()


def test_another_name_is_refused_either_way(kubelet, shape):
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'somebody-else'"):
        dial(kubelet, name="somebody-else")


def test_another_authority_is_refused_either_way(kubelet, shape, tmp_path):
    others = pki.ensure(tmp_path / "others", ["127.0.0.1"])
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate verify failed"):
        dial(kubelet, ca=others.ca)


def test_a_refused_upgrade_leaves_no_socket_behind(shape, tmp_path):
    kubelet = KubeletDouble(tmp_path / "kubelet", answer="403 Forbidden")
    try:
        endpoint = f"127.0.0.1:{kubelet.port}"
        with pytest.raises(Broken, match="403 Forbidden"):
            dial_home(endpoint, kubelet.plan["ca"], wellknown.AGENT_SERVER_NAME, "/", "t")
    finally:
        kubelet.stop()
