"""In the place of kube-apiserver, which no registry gives: knows its flags, needs its etcd.

Run by test_upstream as a program of that name. It refuses a flag that the original does not have,
finds etcd well with the certificates it was given and closed without them, and then serves Orlop's
own API with the files and at the port that it was told.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import ssl
import sys
import time
import urllib.request
from pathlib import Path

from orlop.apiserver import ApiServer
from orlop.jwt import SigningKey
from orlop.store import Store

FLAGS = """
    etcd-servers etcd-cafile etcd-certfile etcd-keyfile bind-address secure-port advertise-address
    client-ca-file tls-cert-file tls-private-key-file kubelet-certificate-authority
    kubelet-client-certificate kubelet-client-key kubelet-preferred-address-types
    service-account-issuer service-account-key-file service-account-signing-key-file
    service-cluster-ip-range authorization-mode anonymous-auth allow-privileged profiling v
"""


def flags():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in FLAGS.split():
        parser.add_argument(f"--{name}", required=name != "v")
    return parser.parse_args()


def use_etcd(given):
    """By its page of health, which reads from its state: the rest of it speaks gRPC."""
    tls = ssl.create_default_context(cafile=given.etcd_cafile)
    with contextlib.suppress(OSError):
        urllib.request.urlopen(f"{given.etcd_servers}/health", context=tls, timeout=20)
        raise AssertionError("etcd answers to those without a certificate")
    tls.load_cert_chain(given.etcd_certfile, given.etcd_keyfile)
    with urllib.request.urlopen(f"{given.etcd_servers}/health", context=tls, timeout=20) as answer:
        assert json.loads(answer.read())["health"] == "true"


async def serve(given):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=given.client_ca_file)
    tls.verify_mode = ssl.CERT_OPTIONAL
    tls.load_cert_chain(given.tls_cert_file, given.tls_private_key_file)
    kubelet = ssl.create_default_context(cafile=given.kubelet_certificate_authority)
    kubelet.load_cert_chain(given.kubelet_client_certificate, given.kubelet_client_key)
    key = SigningKey.from_pem(Path(given.service_account_signing_key_file).read_bytes())
    store = await Store.open(Path("double.db").absolute())
    server = ApiServer(store, tls=tls, kubelet_tls=kubelet, signing_key=key)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await server.start(given.bind_address, int(given.secure_port))
    print("serving", given.secure_port, flush=True)
    await stopped.wait()
    await server.stop()
    await store.close()


if __name__ == "__main__":
    given = flags()
    for _ in range(100):
        try:
            use_etcd(given)
            break
        except OSError as error:
            last = error
            time.sleep(0.1)
    else:
        sys.exit(f"etcd does not answer: {last}")
    asyncio.run(serve(given))
