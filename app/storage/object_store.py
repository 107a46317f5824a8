"""Amazon S3, and stores that speak its protocol, through obstore, by the methods of fsspec that are used.

Settings are obstore's own: what it is given as options, or else AWS's environment variables. Where there are
AWS's profile files, boto3 finds the credentials, since obstore knows neither profiles nor single sign-on.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import re
import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from app.storage.failures import StoreAnswerError
from app.storage.retry import Attempt
from app.work.deadline import wait_for

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3CredentialProvider, S3Store

Result = TypeVar("Result")

# obstore's classes do not tell a store that is busy from one that refuses; only its messages do.
_STATUS: Final = re.compile(r"non-2xx status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z][A-Za-z0-9_.-]{0,63})</Code>")
_TIMED_OUT: Final = "TimedOut"
_REDIRECTED: Final = "incorrectly configured region"

_INSTANCE: Final = "http://169.254.169.254/"

# Where the store itself answers these, obstore has classes for them, but for listings; otherwise they are of
# what gives credentials.
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

_MOST_IDLE: Final = 1000
"""Connections that are kept open, more than there are threads that ask."""

_IDLE_SECONDS: Final = 15
"""How long they are, less than the 20 s after which Amazon's servers close them."""

_WRITE_SECONDS: Final = 300
"""How long sending an object may take until the store answers."""

_FRESH_SECONDS: Final = 60
"""How long credentials of a profile are used before boto3 is asked again, which renews them."""


class NoCredentialsError(OSError):
    """There are no keys in the environment, and the instance or role gives none."""


class ObjectStore:
    """The buckets of one store.

    Paths are a bucket and a key: ``bucket/warehouse/db.db``.

    Args:
        options: of obstore's ``S3Store``, before what the environment says.

    Raises:
        OSError: the file of certificates cannot be read.
        ImportError: obstore is not installed, or boto3, and there is a profile.
        ValueError: an option is none of obstore's, or there are no credentials.
    """

    protocol: Final = "s3"
    async_impl: Final = True

    def __init__(
        self, options: Mapping[str, Any], stall_seconds: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        from obstore.store import S3Store  # noqa: PLC0415 - it comes with the extra `s3`

        self.loop = loop
        self._open = S3Store
        self._options = dict(options)
        self._stall_seconds = stall_seconds
        self._provider = _provider(options)
        self._authority = _authority()
        self._stores: dict[tuple[str, bool], S3Store] = {}

    def read_many(
        self, wanted: Sequence[tuple[str, int, int]], calls: asyncio.Semaphore
    ) -> list[Attempt[bytes]]:
        """What became of reading many ranges side by side, each once; ``calls`` bounds those under way.

        A thread that waits for each of them would cost more than the calls do.
        """

        async def attempt(path: str, start: int, end: int) -> Attempt[bytes]:
            async with calls:
                began = time.perf_counter()
                try:
                    content = await self._cat_file(path, start, end)
                except Exception as error:  # noqa: BLE001 - whoever repeats the call judges it
                    return Attempt(time.perf_counter() - began, error=error)
                return Attempt(time.perf_counter() - began, content)

        async def attempts() -> list[Attempt[bytes]]:
            return await asyncio.gather(*(attempt(*each) for each in wanted))

        under_way = asyncio.run_coroutine_threadsafe(attempts(), self.loop)
        try:
            return wait_for(under_way)
        finally:
            under_way.cancel()

    async def _cat_file(self, path: str, start: int, end: int) -> bytes:
        store, key = self._place(path)
        return bytes(await _asked(store.get_range_async(key, start=start, end=end)))

    async def _ls(self, path: str, *, detail: bool) -> list[Any]:
        store, key = self._place(path)
        found = await _asked(store.list_with_delimiter_async(key))
        above = path.partition("/")[0] + "/"
        listed = [
            {
                "name": above + each["path"],
                "type": "file",
                "size": each["size"],
                "last_modified": each["last_modified"],
            }
            for each in found["objects"]
        ]
        listed += [
            {"name": above + name, "type": "directory", "size": 0} for name in found["common_prefixes"]
        ]
        return listed if detail else [each["name"] for each in listed]

    async def _info(self, path: str) -> dict[str, Any]:
        store, key = self._place(path)
        try:
            return {"size": (await _asked(store.head_async(key)))["size"]}
        except FileNotFoundError:
            if not await self._ls(path, detail=False):
                raise
            return {"size": 0}

    async def _exists(self, bucket: str) -> bool:
        try:
            await _asked(anext(aiter(self._place(bucket)[0].list(chunk_size=1)), None))
        except FileNotFoundError:
            return False
        return True

    async def _pipe_file(self, path: str, value: bytes, mode: str = "overwrite") -> None:
        store, key = self._place(path, for_writing=True)
        put_mode: Any = mode
        await _asked(store.put_async(key, value, mode=put_mode, use_multipart=False))

    async def _rm_file(self, path: str) -> None:
        store, key = self._place(path)
        await _asked(store.delete_async(key))

    def _place(self, path: str, *, for_writing: bool = False) -> tuple[S3Store, str]:
        bucket, _, key = path.partition("/")
        return self._store(bucket, for_writing=for_writing), key

    def _store(self, bucket: str, *, for_writing: bool = False) -> S3Store:
        found = self._stores.get((bucket, for_writing))
        if found is None:
            endpoint = self._options.get("endpoint") or _first_of(_ENDPOINTS)
            client: ClientConfig = {
                "allow_http": endpoint.startswith("http://"),
                "connect_timeout": dt.timedelta(seconds=self._stall_seconds),
                # Until the answer begins, and between two pieces of it; how long all of it takes is the
                # request's to bound.
                "read_timeout": dt.timedelta(
                    seconds=max(self._stall_seconds, _WRITE_SECONDS) if for_writing else self._stall_seconds
                ),
                "timeout": dt.timedelta(days=1),
                "pool_max_idle_per_host": str(_MOST_IDLE),
                "pool_idle_timeout": dt.timedelta(seconds=_IDLE_SECONDS),
            }
            if self._authority is not None:
                client["root_certificate"] = self._authority
            options: dict[str, Any] = {"disable_bulk_delete": True}
            # No certificate is valid for further dots before the store's name.
            if not endpoint and "." not in bucket:
                options["virtual_hosted_style_request"] = True
            found = self._stores[bucket, for_writing] = self._open(
                bucket,
                **(options | self._options),
                client_options=client,
                # What fails is repeated above (app.storage.retry).
                retry_config={"max_retries": 0},
                credential_provider=self._provider,
            )
        return found


def _first_of(names: Sequence[str]) -> str:
    return next(filter(None, map(os.environ.get, names)), "")


def _authority() -> bytes | None:
    """Certificates of the store's authority, where it is none that every machine knows."""
    path = os.environ.get("AWS_CA_BUNDLE")
    return Path(path).read_bytes() if path else None


def _provider(options: Mapping[str, Any]) -> S3CredentialProvider | None:
    """Gives credentials of a profile; None where obstore finds them by itself."""
    has_own = {"access_key_id", "skip_signature"} & options.keys() or _first_of(_CREDENTIALS)
    files = [Path(os.environ.get(name) or default).expanduser() for name, default in _PROFILES]
    if has_own or not ("AWS_PROFILE" in os.environ or any(file.is_file() for file in files)):
        return None
    from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - it comes with the extra `s3`

    return Boto3CredentialProvider(ttl=dt.timedelta(seconds=_FRESH_SECONDS))


async def _asked(answer: Awaitable[Result]) -> Result:
    from obstore import exceptions  # noqa: PLC0415 - it comes with the extra `s3`

    try:
        return await answer
    except (exceptions.BaseError, FileNotFoundError) as error:
        said = str(error)
        found, code = _STATUS.search(said), _CODE.search(said)
        if _REDIRECTED in said:
            raise StoreAnswerError("PermanentRedirect", 301) from None
        if found is None:
            # Other files may be missing, such as one with a token to sign with.
            kind = TimeoutError if _TIMED_OUT in said else ConnectionError
            raise (NoCredentialsError if _INSTANCE in said else kind)(type(error).__name__) from None
        status = int(found[1])
        is_of_store = not isinstance(error, exceptions.GenericError) or _LISTING in said
        if status in (*_REFUSALS, _NOT_FOUND) and not is_of_store:
            raise NoCredentialsError("NoCredentials: who should give them refuses") from None
        if status == _NOT_FOUND:
            raise FileNotFoundError("the store has no such object") from None
        if status == _TAKEN:
            raise FileExistsError("the store has such an object") from None
        failed = StoreAnswerError(None if code is None else code[1], status)
        if status in _REFUSALS:
            raise PermissionError("the store refused") from failed
        raise failed from None
