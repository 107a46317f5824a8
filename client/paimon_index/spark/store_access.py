"""Access of tasks in Python to the objects that a session's Hadoop can read.

Hadoop has settings for S3, ``fs.s3a.*``, for all buckets or for one. Their credentials and endpoints are
translated to arguments of pyarrow and sent to tasks next to the names of files, as Spark sends Hadoop's
settings to its own tasks. If they leave credentials to the environment, tasks use that of their executors.

Source: the documentation of Hadoop-AWS ("Authenticating with S3", "Per-bucket settings").
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from paimon_index.spark.worker import S3_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from paimon_index.spark.worker import StoreSettings

_PREFIX: Final = "fs.s3a."
_PROVIDERS: Final = "aws.credentials.provider"
_OF_SETTINGS: Final = {"TemporaryAWSCredentialsProvider", "SimpleAWSCredentialsProvider"}
"""Hadoop's classes that take credentials from its settings."""
_OF_ENVIRONMENT: Final = {
    "ContainerCredentialsProvider",
    "DefaultAWSCredentialsProviderChain",
    "DefaultCredentialsProvider",
    "EC2ContainerCredentialsProviderWrapper",
    "EnvironmentVariableCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
}
"""Hadoop's classes that take credentials from the environment, as pyarrow does."""
_OF_NOBODY: Final = {"AnonymousAWSCredentialsProvider", "AnonymousCredentialsProvider"}
_SETTINGS: Final = (
    r"^fs\.s3a\.(bucket\..+\.)?(access\.key|secret\.key|session\.token|endpoint|endpoint\.region"
    r"|path\.style\.access|connection\.ssl\.enabled|aws\.credentials\.provider|encryption\.algorithm"
    r"|server-side-encryption-algorithm|requester\.pays\.enabled|security\.credential\.provider\.path"
    r"|delegation\.token\.binding|proxy\.host)$|^fs\.s3\.impl$|^hadoop\.security\.credential\.provider\.path$"
)
"""Java's pattern of the names of settings for reading objects."""
_UNKNOWN_TO_PYARROW: Final = (
    "security.credential.provider.path",
    "delegation.token.binding",
    "proxy.host",
)
_CUSTOMERS_KEYS: Final = ("SSE-C", "CSE-KMS", "CSE-CUSTOM")
"""Encryptions whose objects cannot be read without keys."""
_CLASS: Final = "fs.s3.impl"
_HADOOPS_CLASS: Final = "S3AFileSystem"
_AWS_HOST: Final = ".amazonaws.com"
_AWS_ENDPOINT: Final = re.compile(r"s3(?:[.-](?P<region>[a-z0-9-]+))?\.amazonaws\.com(?:\.cn)?")


class StoreAccess:
    """Access to the files of a session from tasks in Python."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def settings(self, uris: Iterable[str]) -> dict[str, StoreSettings]:
        """Return arguments of pyarrow by bucket. Buckets without any are left to the environment."""
        buckets = {bucket for uri in uris if (bucket := bucket_of(uri)) is not None}
        translated = {bucket: pyarrow_settings(bucket, self._hadoop) for bucket in buckets}
        return {bucket: each for bucket, each in translated.items() if each is not None}

    def reaches(self, uris: Iterable[str]) -> bool:
        """Return True if tasks can surely read all files: of a disk, or of S3 with Hadoop's credentials."""
        far = [uri for uri in uris if not uri.startswith("file:")]
        return {bucket_of(uri) for uri in far} <= self.settings(far).keys()

    @cached_property
    def _hadoop(self) -> dict[str, str]:
        """Hadoop's settings for reading files in this session, from one call of Java."""
        settings = self._spark._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - no public API
        return dict(settings.getValByRegex(_SETTINGS))


def bucket_of(uri: str) -> str | None:
    """Return the S3 bucket of a URI. Return None for other stores."""
    scheme, _, rest = uri.partition("://")
    return rest.partition("/")[0] if scheme in S3_SCHEMES else None


def pyarrow_settings(bucket: str, hadoop: Mapping[str, str]) -> StoreSettings | None:
    """Return arguments with which pyarrow reads a bucket with Hadoop's credentials.

    Return None if Hadoop's settings use something that pyarrow lacks.
    """

    def setting(name: str) -> str:
        return hadoop.get(f"{_PREFIX}bucket.{bucket}.{name}", hadoop.get(_PREFIX + name, "")).strip()

    if any(map(setting, _UNKNOWN_TO_PYARROW)) or hadoop.get("hadoop.security.credential.provider.path"):
        return None
    if not hadoop.get(_CLASS, _HADOOPS_CLASS).endswith(_HADOOPS_CLASS):
        return None  # such as EMRFS, which has settings of its own
    algorithm = setting("encryption.algorithm") or setting("server-side-encryption-algorithm")
    if algorithm in _CUSTOMERS_KEYS or setting("requester.pays.enabled") == "true":
        return None
    credentials = _credentials(
        {each.strip().rpartition(".")[2] for each in setting(_PROVIDERS).split(",") if each.strip()},
        *map(setting, ("access.key", "secret.key", "session.token")),
    )
    if credentials is None:
        return None
    is_secure = setting("connection.ssl.enabled") != "false"
    place = _place(setting("endpoint"), setting("endpoint.region"), is_secure=is_secure)
    if "region" not in place and _AWS_HOST in str(place.get("endpoint_override", "")):
        return None  # AWS takes signatures for a region only, and Hadoop guesses it
    if "endpoint_override" in place and setting("path.style.access") != "true":
        place["force_virtual_addressing"] = True
    return credentials | place


def _credentials(providers: set[str], key: str, secret: str, token: str) -> StoreSettings | None:
    """Return the credentials, or nothing if the environment has them.

    Return None if another source has them.
    """
    if not providers <= _OF_SETTINGS | _OF_ENVIRONMENT | _OF_NOBODY:
        return None
    if key and secret and (not providers or providers & _OF_SETTINGS):
        credentials: StoreSettings = {"access_key": key, "secret_key": secret}
        if token and (not providers or "TemporaryAWSCredentialsProvider" in providers):
            credentials["session_token"] = token
        return credentials
    if providers & _OF_NOBODY:
        return None if providers & _OF_ENVIRONMENT else {"anonymous": True}
    return {}


def _place(endpoint: str, region: str, *, is_secure: bool) -> StoreSettings:
    """Return the endpoint and region of the store. An endpoint of AWS itself is reduced to its region."""
    protocol, _, host = endpoint.rstrip("/").rpartition("://")
    of_aws = _AWS_ENDPOINT.fullmatch(host)
    if of_aws is not None:
        endpoint, region = "", region or of_aws["region"] or ""
    place: StoreSettings = {"region": region} if region else {}
    if endpoint:
        place |= {"endpoint_override": host, "scheme": protocol or ("https" if is_secure else "http")}
    return place
