"""Reads parts of objects in S3 through obstore, which takes a fifth of the processor time of s3fs.

Planning reads very many small files, and there the time of a call is the library's. s3fs stays the way for
all else (listings, sizes, writing), and the judge: where obstore is not installed, cannot be set up as
botocore is, or gives an answer that is not understood here, s3fs is asked. Where requests go and how they
are signed is taken from the client that s3fs made: both have the same endpoint, region and credentials.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import re
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from app.storage.deadline import wait_for
from app.storage.retry import Attempt

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem
    from obstore.store import ClientConfig, S3Credential, S3Store

Result = TypeVar("Result")

_log = logging.getLogger("paimon_index.storage")

_UNDERSTOOD: Final = frozenset({"endpoint_url", "key", "secret", "token", "anon"})
"""Options of s3fs; of others it is not known what they mean to obstore."""

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""Names that can stand in a URL; an access point's cannot."""
_AMAZON = re.compile(r"[a-z0-9.-]+\.amazonaws\.com(\.cn)?")

# obstore tells statuses and error codes in its messages only.
_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z][A-Za-z0-9_.-]{0,63})</Code>")
_BROKEN_OFF: Final = "HTTP error: "
_MISSING: Final = "non-2xx status code: 404"
"""Other files may be missing, too, such as one with a token to sign with; that says nothing of the object."""
_TIMED_OUT: Final = "TimedOut"
_CLOSED: Final = "IncompleteMessage"

_TRIES: Final = 2
"""Of a call whose connection was closed before any answer: servers close those that were idle for long just
when they are used again. Libraries in Python ask once more without a word."""

_JUDGED_ELSEWHERE: Final = frozenset({301, 307, 400})
"""A bucket of another region, or a signature that the store does not take: s3fs may know better."""

_MOST_IDLE: Final = 1000
"""Connections that are kept open, more than there are threads that ask."""

_IDLE_SECONDS: Final = 15
"""How long they are, less than the 20 s after which Amazon's servers close them."""

_FRESH_SECONDS: Final = 60
"""How long credentials that expire are used before botocore is asked again, which renews them."""


class StoreAnswerError(OSError):
    """What a store answered in place of an object.

    Attributes:
        response: error code and status, in the form that botocore gives them.
    """

    def __init__(self, code: str | None, status: int) -> None:
        super().__init__(f"the store answered {code or ''} {status}")
        self.response = {
            "Error": {} if code is None else {"Code": code},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


@dataclass(slots=True)
class ObjectReads:
    """Reads of one bucket.

    Attributes:
        filesystem: s3fs's.
        bucket: the bucket's name.
        stall_seconds: how long the store may be silent in a call.
    """

    filesystem: Any
    bucket: str
    stall_seconds: float
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _store: S3Store | None = None
    _is_given_up: bool = False

    @classmethod
    def of(
        cls, filesystem: AbstractFileSystem, directory: str, options: Mapping[str, Any], stall_seconds: float
    ) -> ObjectReads | None:
        """The reads of a directory's bucket; None where s3fs has to be asked.

        Args:
            filesystem: fsspec's.
            directory: the bucket, perhaps with a prefix.
            options: that the filesystem was made with, apart from those of every warehouse.
            stall_seconds: see above.
        """
        bucket = directory.partition("/")[0]
        is_s3 = "s3" in filesystem.protocol and hasattr(filesystem, "set_session")
        if not is_s3 or not _BUCKET.fullmatch(bucket) or not options.keys() <= _UNDERSTOOD:
            return None
        return cls(filesystem, bucket, stall_seconds) if find_spec("obstore") else None

    def read(self, path: str, start: int, end: int) -> bytes | None:
        """Bytes of an object, fewer where it ends before; None where s3fs has to be asked.

        Args:
            path: bucket and key.
            start: offset of the first byte.
            end: offset behind the last byte, more than ``start``.

        Raises:
            FileNotFoundError: there is no such object.
            StoreAnswerError: the store refused.
            OSError: it was silent, or broke off.
            DeadlineExceededError: the request's time was used up, or its caller went away.
        """
        if self._is_given_up:
            return None
        content = self._awaited(self._read(path, start, end))
        return None if content is None else bytes(content)

    def read_many(
        self, wanted: Sequence[tuple[str, int, int]], calls: asyncio.Semaphore
    ) -> list[Attempt[bytes] | None]:
        """What became of reading many ranges side by side, each once; None where s3fs has to be asked.

        A thread that waits for each of them would cost more than the calls do.

        Args:
            wanted: path, start and end of each, as of :meth:`read`.
            calls: bounds those under way; awaited in the event loop of s3fs only.

        Raises:
            DeadlineExceededError: the request's time was used up, or its caller went away.
        """
        if self._is_given_up:
            return [None] * len(wanted)

        async def attempt(path: str, start: int, end: int) -> Attempt[bytes] | None:
            async with calls:
                began = time.perf_counter()
                try:
                    content = await self._read(path, start, end)
                except Exception as error:  # noqa: BLE001 - whoever repeats the call judges it
                    return Attempt(time.perf_counter() - began, error=error)
                return None if content is None else Attempt(time.perf_counter() - began, bytes(content))

        async def attempts() -> list[Attempt[bytes] | None]:
            return await asyncio.gather(*(attempt(*each) for each in wanted))

        return self._awaited(attempts())

    def _awaited(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What the event loop of s3fs finds; its work ends with the request that waits for it."""
        under_way = asyncio.run_coroutine_threadsafe(work, self.filesystem.loop)
        try:
            return wait_for(under_way)
        finally:
            under_way.cancel()

    async def _read(self, path: str, start: int, end: int) -> memoryview | None:
        import obstore  # noqa: PLC0415 - it comes with the extra `s3`
        from obstore.exceptions import BaseError  # noqa: PLC0415 - likewise

        store = self._store or await self._open()
        if store is None:
            return None
        key = path.removeprefix(f"{self.bucket}/")
        said = ""
        for _ in range(_TRIES):
            try:
                return memoryview(await obstore.get_range_async(store, key, start=start, end=end))
            except ValueError:
                # A key that obstore has no way to ask for.
                return None
            except (BaseError, FileNotFoundError) as error:
                said = str(error)
                if isinstance(error, FileNotFoundError) and _MISSING in said:
                    raise
            if _CLOSED not in said:
                break
        self._judge(said)
        return None

    def _judge(self, said: str) -> None:
        """Raises what obstore's message says, or gives obstore up where that is left to s3fs.

        Raises:
            StoreAnswerError: the store refused.
            OSError: it was silent, or broke off.
        """
        status = _STATUS.search(said)
        if status is not None:
            number = int(status.group(1))
            code = _CODE.search(said)
            if number not in _JUDGED_ELSEWHERE:
                raise StoreAnswerError(None if code is None else code.group(1), number)
            self._give_up(f"the store answers {number}")
        elif _TIMED_OUT in said:
            raise TimeoutError("the store was silent")
        elif _BROKEN_OFF in said:
            raise ConnectionError("the store broke off")
        else:
            self._give_up("the store's answers are not understood")

    async def _open(self) -> S3Store | None:
        """Sets obstore up as botocore is, once."""
        async with self._opening:
            if self._store is None and not self._is_given_up:
                client = await self.filesystem.set_session()
                credentials = client._request_signer._credentials  # noqa: SLF001 - no public way
                is_signed = isinstance(client.meta.config.signature_version, str)
                if client.meta.config.proxies or (is_signed and credentials is None):
                    self._give_up("it goes through a proxy or has no credentials")
                else:
                    try:
                        self._store = self._store_of(client, credentials if is_signed else None)
                    except (OSError, ValueError) as error:
                        # A file of certificates that is missing is no missing object.
                        self._give_up(f"it cannot be set up ({type(error).__name__})")
        return self._store

    def _store_of(self, client: Any, credentials: Any | None) -> S3Store:  # noqa: ANN401 - aiobotocore's
        from obstore.store import S3Store  # noqa: PLC0415 - it comes with the extra `s3`

        address = client.meta.endpoint_url
        stall = dt.timedelta(seconds=self.stall_seconds)
        options: ClientConfig = {
            "allow_http": address.startswith("http://"),
            "connect_timeout": stall,
            # Between two pieces of an answer; how long all of it takes is the request's to bound.
            "read_timeout": stall,
            "timeout": dt.timedelta(days=1),
            "pool_max_idle_per_host": str(_MOST_IDLE),
            "pool_idle_timeout": dt.timedelta(seconds=_IDLE_SECONDS),
        }
        authority = self.filesystem.session.get_config_variable("ca_bundle")
        if authority:
            options["root_certificate"] = Path(authority).read_bytes()
        signing: dict[str, Any] = (
            {"skip_signature": True}
            if credentials is None
            else {"credential_provider": _Credentials(credentials)}
        )
        return S3Store(
            self.bucket,
            endpoint=bucket_url(address, self.bucket, (client.meta.config.s3 or {}).get("addressing_style")),
            virtual_hosted_style_request=True,
            region=client.meta.region_name or "us-east-1",
            client_options=options,
            # What fails is repeated above (app.storage.retry).
            retry_config={"max_retries": 0},
            **signing,
        )

    def _give_up(self, why: str) -> None:
        self._is_given_up = True
        _log.warning("bucket %s is read through s3fs, which is slower: %s", self.bucket, why)


@dataclass(frozen=True, slots=True)
class _Credentials:
    """Gives obstore the credentials that botocore has found, and renews."""

    found: Any

    async def __call__(self) -> S3Credential:
        frozen = await self.found.get_frozen_credentials()
        # Only those that expire know how to be renewed.
        expires = hasattr(self.found, "refresh_needed")
        until = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=_FRESH_SECONDS)
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": until if expires else None,
        }


def bucket_url(endpoint: str, bucket: str, addressing_style: str | None) -> str:
    """Where the objects of a bucket lie, as botocore finds them.

    Args:
        endpoint: of the store, which may be Amazon's or another one.
        bucket: its name.
        addressing_style: ``path``, ``virtual`` or ``auto``, as botocore's configuration says.
    """
    scheme, _, host = endpoint.rstrip("/").partition("://")
    is_amazon = _AMAZON.fullmatch(host) is not None
    is_virtual = addressing_style == "virtual" or (is_amazon and addressing_style != "path")
    # No certificate is valid for further dots before a store's name.
    if is_virtual and "." not in bucket:
        return f"{scheme}://{bucket}.{host}"
    return f"{scheme}://{host}/{bucket}"
