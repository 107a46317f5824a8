"""Settings of the operator: environment variables ``PAIMON_INDEX_*``, checked before the service starts.

Arguments of :meth:`Settings.load` (the flags of the command line) win over the environment.
``docs/settings.md`` describes every field. A test compares the two.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from app.errors import SettingsError
from app.planning.request import TableRef
from app.planning.request.limits import SHARE_OF_DEADLINE, Limits
from app.suggestions import alike
from app.table import is_name

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

ENVIRONMENT_PREFIX = "PAIMON_INDEX_"
RESERVED_WAREHOUSES = frozenset({"config", "cache", "namespaces"})

_PUBLIC_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/.+")
_WAREHOUSE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MIB = 1 << 20
_LIMITS = Limits()

ICEBERG_S3: Final = (
    "client.region",
    "s3.endpoint",
    "s3.force-virtual-addressing",
    "s3.path-style-access",
    "s3.region",
)
"""Properties of an object store that Iceberg's clients may receive."""

_OTHER_VARIABLES: Final = frozenset({"PAIMON_INDEX_TOKEN", "PAIMON_INDEX_WORKERS_DIRECTORY"})
"""Variables of clients and of the service's own processes."""
_OF_KUBERNETES: Final = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_\w+|\w+_PORT)")
"""Variables in which Kubernetes announces Services whose names begin like this one's."""

LogFormat = Literal["auto", "json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]
Positive = Annotated[int, Field(gt=0)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
OpenOrToken = Literal["open", "token"]


class Settings(BaseSettings):
    """The service's settings. Attribute ``page_size`` is the variable ``PAIMON_INDEX_PAGE_SIZE``."""

    model_config = SettingsConfigDict(env_prefix=ENVIRONMENT_PREFIX, frozen=True, extra="forbid")

    warehouses: Annotated[dict[str, str], NoDecode] = {}
    public_urls: Annotated[dict[str, str], NoDecode] = {}
    allow_external: Annotated[tuple[str, ...], NoDecode] = ()
    engine_writes_only: Annotated[tuple[str, ...], NoDecode] = ()
    watch: Annotated[tuple[str, ...], NoDecode] = ()
    watch_seconds: Seconds = 10.0
    iceberg: bool = False
    iceberg_s3: Annotated[dict[str, str], NoDecode] = {}

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    workers: Positive = 1
    threads: Positive = 16

    auth: Literal["on", "off"] = "on"
    tokens_file: str | None = None
    docs_access: OpenOrToken = "open"
    metrics_access: OpenOrToken = "token"
    tls_certificate: str | None = None
    tls_key: str | None = None

    body_bytes: Positive = 32 * _MIB
    deadline_seconds: Seconds = 30.0
    concurrency: Positive = 256
    keep_alive_seconds: Annotated[int, Field(gt=0)] = 75
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 5.0
    grace_seconds: Annotated[int, Field(ge=0)] = 10
    filter_literals: Positive = _LIMITS.filter_literals
    files_named: Positive = _LIMITS.files_named
    max_staleness_ms: Annotated[int, Field(ge=0)] = _LIMITS.staleness_ms
    budget_ms: Annotated[int, Field(ge=0)] | None = None
    page_size: Positive = 10_000
    page_size_max: Positive = 100_000

    log_format: LogFormat = "auto"
    log_level: LogLevel = "info"
    metrics_token_names: bool = False
    filter_shapes: bool = True
    price_per_terabyte: Price | None = None
    price_per_1000_calls: Price | None = None

    disk_cache: str | None = None
    disk_cache_bytes: Positive = 10 << 30
    shared_cache: str | None = None
    shared_cache_key: SecretStr | None = None
    shared_cache_key_file: str | None = None
    shared_cache_private: bool = False

    memory_bytes: Positive | None = None

    @classmethod
    def load(cls, **flags: object) -> Self:
        """Load settings from flags and environment. Raises SettingsError, with a line per faulty setting."""
        given = {name: value for name, value in flags.items() if value is not None}
        # A misspelt setting would otherwise be ignored without a word.
        variables = {name.upper() for name in os.environ}
        unknown = [fault for name in sorted(variables) if (fault := cls._unknown(name)) is not None]
        if unknown:
            raise SettingsError("\n".join(unknown))
        try:
            return cls(**given)  # type: ignore[arg-type]
        except ValidationError as error:
            raise SettingsError("\n".join(_explain(fault) for fault in error.errors())) from error

    def with_shared_cache(self, url: str) -> Self:
        """Return the settings of a job that fills the cache at ``url``.

        Raises SettingsError if nothing signs entries.
        """
        # With a disk cache the job would read files from disk without storing them in the shared cache.
        changed = {"shared_cache": url, "disk_cache": None}
        return self.load(**{**self.model_dump(exclude_unset=True), **changed})

    @classmethod
    def _unknown(cls, variable: str) -> str | None:
        setting = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if not variable.startswith(ENVIRONMENT_PREFIX) or setting in cls.model_fields:
            return None
        if variable in _OTHER_VARIABLES or _OF_KUBERNETES.fullmatch(variable):
            return None
        meant = alike(setting, list(cls.model_fields))
        suggestion = f": did you mean {ENVIRONMENT_PREFIX}{meant[0].upper()}?" if meant else ""
        return f"{variable}: there is no such setting{suggestion}"

    @field_validator("warehouses", "public_urls", "iceberg_s3", mode="before")
    @classmethod
    def _read_urls(cls, value: object) -> object:
        return _json(value, 'a JSON object such as {"main": "file:///data"}')

    @field_validator("warehouses")
    @classmethod
    def _check_names(cls, value: dict[str, str]) -> dict[str, str]:
        for name, url in value.items():
            if not _WAREHOUSE_NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} is not a warehouse name: letters, digits, '.', '_' and '-' of one path segment"
                )
            if name in RESERVED_WAREHOUSES:
                raise ValueError(f"{name!r} is reserved, since /v1/{name} is an endpoint")
            if not url.strip():
                raise ValueError(f"warehouse {name!r} has no URL")
        return value

    @field_validator("public_urls")
    @classmethod
    def _check_public_urls(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for name, url in value.items():
            if name not in info.data.get("warehouses", ()):
                raise ValueError(f"{name!r} is not a configured warehouse")
            if not _PUBLIC_URL.fullmatch(url):
                raise ValueError(
                    f"{url!r} of warehouse {name!r} is not a URL: expected scheme://place or file:/path"
                )
        return value

    @field_validator("iceberg_s3")
    @classmethod
    def _check_iceberg_s3(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            # Every caller who may load a table receives these, so credentials are not allowed.
            if name not in ICEBERG_S3:
                raise ValueError(f"{name!r} is none of {', '.join(ICEBERG_S3)}")
        return value

    @field_validator("engine_writes_only")
    @classmethod
    def _check_warehouses(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        for name in value:
            if name not in info.data.get("warehouses", ()):
                raise ValueError(f"{name!r} is not a configured warehouse")
        return value

    @field_validator("watch")
    @classmethod
    def _check_tables(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        for name in value:
            _table_ref(name, info.data.get("warehouses", ()))
        return value

    @field_validator("allow_external", "engine_writes_only", "watch", mode="before")
    @classmethod
    def _read_list(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        if not value.lstrip().startswith("["):
            return tuple(item.strip() for item in value.split(",") if item.strip())
        return tuple(_json(value, "a JSON list or a comma-separated list"))

    @field_validator("tokens_file")
    @classmethod
    def _check_tokens_file(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("auth") == "off":
            raise ValueError(f"says who may ask, but {ENVIRONMENT_PREFIX}AUTH=off says everybody: unset one")
        return value

    @field_validator("tls_key")
    @classmethod
    def _check_tls_key(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("tls_certificate") is None:
            raise ValueError(f"needs {ENVIRONMENT_PREFIX}TLS_CERTIFICATE")
        return value

    @model_validator(mode="after")
    def _check_shared_cache(self) -> Self:
        prefix = f"{ENVIRONMENT_PREFIX}SHARED_CACHE"
        keys = (self.shared_cache_key, self.shared_cache_key_file, self.shared_cache_private or None)
        # A key without a cache is not an error: a job has the key in its environment and the cache's URL in a
        # flag.
        if self.shared_cache is not None and sum(key is not None for key in keys) != 1:
            raise ValueError(
                f"{prefix} needs one of {prefix}_KEY and {prefix}_KEY_FILE, which sign entries, or "
                f"{prefix}_PRIVATE=true if only this service may write to it"
            )
        return self

    @field_validator("page_size_max")
    @classmethod
    def _check_page_sizes(cls, value: int, info: ValidationInfo) -> int:
        if value < info.data.get("page_size", 1):
            raise ValueError(f"is below the default page size of {info.data['page_size']}")
        return value

    @property
    def watched_tables(self) -> list[TableRef]:
        """The tables of ``watch`` without repetition."""
        return [_table_ref(name, self.warehouses) for name in dict.fromkeys(self.watch)]

    @property
    def limits(self) -> Limits:
        """The limits of the planner."""
        return Limits(
            filter_literals=self.filter_literals,
            files_named=self.files_named,
            staleness_ms=self.max_staleness_ms,
        )

    @cached_property
    def plan_budget_ms(self) -> int:
        """Time for reading index files in a plan whose request sets none."""
        if self.budget_ms is not None:
            return self.budget_ms
        # The rest of the deadline is for the other steps of the answer.
        return int(self.deadline_seconds * 1000 * SHARE_OF_DEADLINE)


def _json(value: Any, expected: str) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f"expected {expected}: {error}") from error


def _table_ref(name: str, warehouses: Iterable[str]) -> TableRef:
    candidates = [warehouse for warehouse in warehouses if name.startswith(f"{warehouse}.")]
    if not candidates:
        raise ValueError(f"{name!r} begins with no configured warehouse: {sorted(warehouses)}")
    warehouse = max(candidates, key=len)
    database, _, table = name.removeprefix(f"{warehouse}.").partition(".")
    if not is_name(database) or not is_name(table):
        raise ValueError(f"{name!r} is not a table: expected warehouse.database.table")
    return TableRef(warehouse, database, table)


def _explain(fault: ErrorDetails) -> str:
    if not fault["loc"]:
        # A fault of several settings, which the message names.
        return fault["msg"].removeprefix("Value error, ")
    name, *rest = (str(part) for part in fault["loc"])
    place = "".join(f"[{part}]" for part in rest)
    message = fault["msg"].removeprefix("Value error, ")
    # Kubernetes sets NAME_PORT for a Service called NAME, and the value is not a port number.
    if str(fault["input"]).startswith("tcp://"):
        message = (
            f"{fault['input']} is Kubernetes' own, of a Service called paimon-index: set enableServiceLinks: "
            f"false in the pod, or call the Service otherwise"
        )
    return f"{ENVIRONMENT_PREFIX}{name.upper()}{place}: {message}"
