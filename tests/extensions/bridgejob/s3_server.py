"""A real S3 server in this process, that lets nobody in whose signature is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

import boto3
from moto.server import ThreadedMotoServer

from orlop.extensions.bridgejob.s3 import Server

ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


@contextmanager
def serving() -> Iterator[Server]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        anybody = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
        iam = boto3.client("iam", endpoint_url=url, region_name="us-east-1", **anybody)
        iam.create_user(UserName="ann")
        iam.put_user_policy(UserName="ann", PolicyName="all", PolicyDocument=json.dumps(ALL))
        key = iam.create_access_key(UserName="ann")["AccessKey"]
        headers = {"Content-Type": "text/plain"}
        with urlopen(Request(f"{url}/moto-api/reset-auth", b"0", headers), timeout=30):
            pass  # from now on it looks at signatures
        yield Server(f"{host}:{port}", key["AccessKeyId"], key["SecretAccessKey"], is_secure=False)
    finally:
        server.stop()
