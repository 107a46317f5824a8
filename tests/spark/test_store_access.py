"""Hadoop's settings for S3 in pyarrow's words."""

import json
import os
import subprocess
from functools import cache
from typing import Any, Final

import pytest

from tests.spark.environment import spark_python
from tests.spark.sessions import CLIENT

pytestmark = pytest.mark.spark

PROGRAM: Final = """
import json, sys
from paimon_index.spark.store_access import pyarrow_settings

print(json.dumps([pyarrow_settings("lake", hadoop) for hadoop in json.load(sys.stdin)]))
"""
AUTH: Final = "org.apache.hadoop.fs.s3a.auth."
BY_DEFAULT: Final = {
    "fs.s3a.aws.credentials.provider": (
        "\n org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,\n"
        " org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,\n"
        " software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,\n"
        f" {AUTH}IAMInstanceCredentialsProvider\n"
    ),
    "fs.s3a.connection.ssl.enabled": "true",
    "fs.s3a.path.style.access": "false",
}
"""What Hadoop itself sets."""
KEYS: Final = {"fs.s3a.access.key": "a", "fs.s3a.secret.key": "b"}
AS_KEYS: Final = {"access_key": "a", "secret_key": "b"}
PROVIDER: Final = "fs.s3a.aws.credentials.provider"

CASES: Final[dict[str, tuple[dict[str, str], dict[str, Any] | None]]] = {
    "nothing is set": (BY_DEFAULT, {}),
    "keys": (BY_DEFAULT | KEYS, AS_KEYS),
    "keys for a time": (BY_DEFAULT | KEYS | {"fs.s3a.session.token": "c"}, AS_KEYS | {"session_token": "c"}),
    "a token of before": (
        KEYS
        | {"fs.s3a.session.token": "c", PROVIDER: "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"},
        AS_KEYS,
    ),
    "keys of the bucket": (
        BY_DEFAULT
        | KEYS
        | {"fs.s3a.bucket.lake.access.key": "x", "fs.s3a.bucket.lake.secret.key": "y"}
        | {"fs.s3a.bucket.pond.access.key": "p"},
        {"access_key": "x", "secret_key": "y"},
    ),
    "keys that are not used": (
        KEYS | {PROVIDER: "com.amazonaws.auth.EnvironmentVariableCredentialsProvider"},
        {},
    ),
    "no credentials": (
        {PROVIDER: "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
        {"anonymous": True},
    ),
    "a role": (KEYS | {PROVIDER: f"{AUTH}AssumedRoleCredentialProvider"}, None),
    "a provider of somebody's own": (KEYS | {PROVIDER: "com.example.Vault"}, None),
    "keys in a file of their own": (
        BY_DEFAULT | {"hadoop.security.credential.provider.path": "jceks://hdfs/keys"},
        None,
    ),
    "objects encrypted with a customer's key": (
        BY_DEFAULT | KEYS | {"fs.s3a.encryption.algorithm": "SSE-C"},
        None,
    ),
    "another class for S3": (BY_DEFAULT | {"fs.s3.impl": "com.amazon.ws.emr.hadoop.fs.EmrFileSystem"}, None),
    "Hadoop's class for S3": (BY_DEFAULT | {"fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}, {}),
    "a proxy": (BY_DEFAULT | KEYS | {"fs.s3a.proxy.host": "proxy"}, None),
    "a store of one's own": (
        BY_DEFAULT | KEYS | {"fs.s3a.endpoint": "http://minio:9000/", "fs.s3a.path.style.access": "true"},
        AS_KEYS | {"endpoint_override": "minio:9000", "scheme": "http"},
    ),
    "a store without TLS": (
        BY_DEFAULT
        | {"fs.s3a.endpoint": "minio:9000", "fs.s3a.connection.ssl.enabled": "false"}
        | {"fs.s3a.path.style.access": "true"},
        {"endpoint_override": "minio:9000", "scheme": "http"},
    ),
    "a store with buckets as hosts": (
        BY_DEFAULT | {"fs.s3a.endpoint": "oss.example.com", "fs.s3a.endpoint.region": "here"},
        {
            "endpoint_override": "oss.example.com",
            "scheme": "https",
            "region": "here",
            "force_virtual_addressing": True,
        },
    ),
    "AWS": (BY_DEFAULT | {"fs.s3a.endpoint": "s3.amazonaws.com"}, {}),
    "a region by its endpoint": (
        BY_DEFAULT | {"fs.s3a.endpoint": "https://s3.eu-central-1.amazonaws.com"},
        {"region": "eu-central-1"},
    ),
    "a region in China": (
        BY_DEFAULT | {"fs.s3a.endpoint": "s3.cn-north-1.amazonaws.com.cn"},
        {"region": "cn-north-1"},
    ),
    "an endpoint of a private network": (
        BY_DEFAULT | {"fs.s3a.endpoint": "vpce-1.s3.eu-west-1.vpce.amazonaws.com"},
        None,
    ),
    "a region by its name": (BY_DEFAULT | {"fs.s3a.endpoint.region": "eu-west-1"}, {"region": "eu-west-1"}),
}


@cache
def translated() -> dict[str, dict[str, Any] | None]:
    """Return what becomes of all cases, in one process with pyspark."""
    done = subprocess.run(  # noqa: S603 - our own program
        [str(spark_python()), "-c", PROGRAM],
        input=json.dumps([hadoop for hadoop, _ in CASES.values()]),
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(CLIENT)},
    )
    return dict(zip(CASES, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_tasks_read_with_what_hadoop_is_told(case: str) -> None:
    assert translated()[case] == CASES[case][1]
