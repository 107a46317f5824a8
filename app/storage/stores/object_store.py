"""Amazon S3, and stores that speak its protocol, through obstore's filesystem.

Settings are obstore's options, then AWS's environment variables. If there are AWS profile files, boto3 finds
the credentials, since obstore supports neither profiles nor single sign-on.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from obstore import exceptions
from obstore.fsspec import FsspecStore
from obstore.store import S3Store
from typing_extensions import override

from app.storage.stores import local_files
from app.storage.stores.failures import StoreAnswerError
from app.storage.stores.libraries import LibraryStore, event_loop, read_seconds
from app.storage.stores.store import StoredFile

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3CredentialProvider

# obstore's classes do not separate a busy store from one that refuses; its messages do.
_STATUS: Final = re.compile(r"non-2xx status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z][A-Za-z0-9_.-]{0,63})</Code>")
_TIMED_OUT: Final = "TimedOut"
_REDIRECTED: Final = "incorrectly configured region"

_INSTANCE: Final = "http://169.254.169.254/"

# obstore has classes for these statuses when the store answers them, except for listings; without a class,
# the credential provider answered.
_REFUSALS: Final = (401, 403)
_NOT_FOUND: Final = 404
_LISTING: Final = "list-type=2"

_TAKEN: Final = 412
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_CREDENTIALS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE")
_PROFILES: Final = (
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    ("AWS_CONFIG_FILE", "~/.aws/config"),
)

# Idle connections kept open: more than there are threads that call.
_MOST_IDLE: Final = 1000

# Idle time: less than the 20 s after which Amazon's servers close connections.
_IDLE_SECONDS: Final = 15

# Time limit of sending an object.
_WRITE_SECONDS: Final = 300

# Reads have a rate instead, see read_seconds.
_NO_TIMEOUT: Final = dt.timedelta(days=1)

# Seconds until boto3 is called again. It renews credentials of a profile.
_FRESH_SECONDS: Final = 60


class NoCredentialsError(OSError):
    """The environment has no keys, and the instance or role gives none."""


class ObjectStore(LibraryStore):
    """A directory of a bucket. ``directory``: both names, as in ``bucket/warehouse``.

    ``options``: arguments of obstore's ``S3Store``, which override the environment. Raises OSError for an
    unreadable file of certificates, ImportError for a profile without boto3, ValueError for an unknown option
    or missing credentials.
    """

    def __init__(self, directory: str, options: Mapping[str, Any], stall_seconds: float) -> None:
        self._bucket = directory.partition("/")[0]
        super().__init__(_Filesystem(self._bucket, options, stall_seconds), directory, stall_seconds)

    @override
    def has_root(self) -> bool:
        try:
            self._ask("exists", self._bucket)
        except FileNotFoundError:
            return False
        return True

    @override
    def files(self, path: str) -> list[StoredFile]:
        # The filesystem's own listings have no times.
        listed = self._ask("objects", self._place(path))
        return [
            StoredFile(each["path"].rpartition("/")[2], each["size"], each["last_modified"])
            for each in listed
        ]

    @override
    async def _call(self, method: str, place: str, *arguments: object, **options: Any) -> Any:
        try:
            return await super()._call(method, place, *arguments, **options)
        except (exceptions.BaseError, FileNotFoundError) as error:
            # The filesystem's own error, for an empty directory, ends with the path; others are the store's.
            if place.endswith(str(error)):
                raise
            _raise_failure(error)


class _Filesystem(FsspecStore):
    """obstore's filesystem. Adds time limits of reads and puts, conditional puts, and a check for buckets."""

    cachable = False

    def __init__(self, bucket: str, options: Mapping[str, Any], stall_seconds: float) -> None:
        endpoint = options.get("endpoint") or _first_of(_ENDPOINTS)
        chosen: dict[str, Any] = {
            # Retries are made in app.storage.retry.
            "retry_config": {"max_retries": 0},
            "credential_provider": _provider(options),
            "disable_bulk_delete": True,
        }
        # A certificate covers one label before the store's name, so a bucket with a dot stays in the path.
        if not endpoint and "." not in bucket:
            chosen["virtual_hosted_style_request"] = True
        chosen |= options
        client = _client(stall_seconds, allow_http=endpoint.startswith("http://"))
        super().__init__("s3", loop=event_loop(), client_options=client, **chosen)
        self._stall_seconds = stall_seconds
        self._open_store = partial(S3Store, bucket, **chosen)
        self._for_bodies: ClientConfig = client | {"timeout": _NO_TIMEOUT}

    @cached_property
    def _read(self) -> S3Store:
        return self._open_store(client_options=self._for_bodies)

    @cached_property
    def _written(self) -> S3Store:
        patience = dt.timedelta(seconds=max(self._stall_seconds, _WRITE_SECONDS))
        return self._open_store(client_options=self._for_bodies | {"read_timeout": patience})

    async def _cat_file(  # type: ignore[override] # nobody reads without a range
        self, path: str, start: int, end: int, **_: object
    ) -> bytes:
        key = self._split_path(path)[1]
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(read_seconds(self._stall_seconds, 0)) as limit:
            answer = await self._read.get_async(key, options={"range": (start, end)})
            first, behind = answer.range
            limit.reschedule(began + read_seconds(self._stall_seconds, behind - first))
            return (await answer.bytes_async()).to_bytes()

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: object) -> None:
        put_mode: Any = mode
        await self._written.put_async(self._split_path(path)[1], value, mode=put_mode, use_multipart=False)

    async def _objects(self, path: str) -> Sequence[Any]:
        bucket, key = self._split_path(path)
        return (await self._construct_store(bucket).list_with_delimiter_async(key))["objects"]

    async def _exists(self, bucket: str, **_: object) -> bool:
        await anext(aiter(self._construct_store(bucket).list(chunk_size=1)), None)
        return True


def _client(stall_seconds: float, *, allow_http: bool) -> ClientConfig:
    client: ClientConfig = {
        "allow_http": allow_http,
        "connect_timeout": dt.timedelta(seconds=stall_seconds),
        "read_timeout": dt.timedelta(seconds=stall_seconds),
        # Time limit of one page of a listing: a read timeout alone would let a page trickle in slowly.
        "timeout": dt.timedelta(seconds=read_seconds(stall_seconds, 0)),
        "pool_max_idle_per_host": str(_MOST_IDLE),
        "pool_idle_timeout": dt.timedelta(seconds=_IDLE_SECONDS),
    }
    # For stores whose certificates are signed by a private authority.
    if authority := os.environ.get("AWS_CA_BUNDLE"):
        client["root_certificate"] = local_files.content(authority)
    return client


def _first_of(names: Sequence[str]) -> str:
    return next(filter(None, map(os.environ.get, names)), "")


def _provider(options: Mapping[str, Any]) -> S3CredentialProvider | None:
    """Return a provider of profile credentials. Return None if obstore finds credentials itself."""
    has_own = {"access_key_id", "skip_signature"} & options.keys() or _first_of(_CREDENTIALS)
    files = [Path(os.environ.get(name) or default).expanduser() for name, default in _PROFILES]
    if has_own or not ("AWS_PROFILE" in os.environ or any(file.is_file() for file in files)):
        return None
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - it comes with the extra `s3`

    return Boto3CredentialProvider(ttl=dt.timedelta(seconds=_FRESH_SECONDS))


def _raise_failure(error: Exception) -> NoReturn:
    message = str(error)
    status_text, code = _STATUS.search(message), _CODE.search(message)
    if _REDIRECTED in message:
        raise StoreAnswerError("PermanentRedirect", 301) from None
    if status_text is None:
        # The store has not answered. A missing file with the token to sign requests ends here as well.
        kind = TimeoutError if _TIMED_OUT in message else ConnectionError
        raise (NoCredentialsError if _INSTANCE in message else kind)(type(error).__name__) from None
    status = int(status_text[1])
    is_of_store = not isinstance(error, exceptions.GenericError) or _LISTING in message
    if status in (*_REFUSALS, _NOT_FOUND) and not is_of_store:
        raise NoCredentialsError("NoCredentials: the credential provider refuses") from None
    if status == _NOT_FOUND:
        raise FileNotFoundError("the store has no such object") from None
    if status == _TAKEN:
        raise FileExistsError("the store has such an object") from None
    failed = StoreAnswerError(None if code is None else code[1], status)
    if status in _REFUSALS:
        raise PermissionError("the store refused") from failed
    raise failed from None
