"""How the memory of a process is shared out."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import SettingsError
from app.memory_budget import CACHE_SHARES, PROCESS_BYTES, MemoryBudget
from app.opening import create_service
from app.planning.request.requests import TableRef
from app.settings import Settings
from app.work.memory import MemoryLimit
from tests.helm.chart import CHART


def test_defaults_are_those_of_the_contract() -> None:
    settings = Settings.load()

    assert settings.warehouses == {}
    assert settings.body_bytes == 32 * 1024 * 1024
    assert (settings.limits.filter_depth, settings.limits.filter_literals) == (200, 100_000)
    assert settings.limits.files_named == 100_000
    assert settings.deadline_seconds == 30
    assert (settings.page_size, settings.page_size_max) == (10_000, 100_000)


def test_the_schema_of_the_chart_knows_the_settings_and_no_others() -> None:
    """Helm refuses a setting that ``helm/paimon-index/values.schema.json`` lacks."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    names = sorted(Settings.model_fields)
    of_others, of_settings = schema["properties"]["extraEnv"]["items"]["properties"]["name"]["anyOf"]

    assert list(schema["properties"]["settings"]["properties"]) == names
    assert of_settings == {"enum": [f"PAIMON_INDEX_{name.upper()}" for name in names]}
    assert of_others == {"not": {"pattern": "^PAIMON_INDEX_"}}


def test_warehouses_come_from_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAIMON_INDEX_WAREHOUSES", '{"main": "file:///data/warehouse", "cold": "s3://cold/w"}')

    assert Settings.load().warehouses == {"main": "file:///data/warehouse", "cold": "s3://cold/w"}


def test_the_variable_of_a_service_of_kubernetes_is_told_from_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAIMON_INDEX_PORT", "tcp://10.0.0.1:80")

    with pytest.raises(SettingsError, match=r"^PAIMON_INDEX_PORT: .*set enableServiceLinks: false"):
        Settings.load()


@pytest.mark.parametrize(
    "text", ['["s3://a", "s3://b=file:///b"]', "s3://a, s3://b=file:///b", "s3://a,s3://b=file:///b,"]
)
def test_external_roots_come_as_json_or_with_commas(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PAIMON_INDEX_ALLOW_EXTERNAL", text)

    assert Settings.load().allow_external == ("s3://a", "s3://b=file:///b")


def test_warehouses_of_the_engine_alone_come_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAIMON_INDEX_ENGINE_WRITES_ONLY", "main, cold")

    settings = Settings.load(warehouses={"main": "file:///x", "cold": "file:///y"})

    assert settings.engine_writes_only == ("main", "cold")


@pytest.mark.parametrize("text", ['["main.db.t", "a.b.c.t.x"]', "main.db.t, a.b.c.t.x, main.db.t"])
def test_watched_tables_are_of_known_warehouses(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PAIMON_INDEX_WATCH", text)

    settings = Settings.load(warehouses={"main": "file:///x", "a": "file:///a", "a.b": "file:///b"})

    assert settings.watched_tables == [TableRef("main", "db", "t"), TableRef("a.b", "c", "t.x")]


def test_flags_win_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAIMON_INDEX_PORT", "1")
    monkeypatch.setenv("PAIMON_INDEX_HOST", "0.0.0.0")  # noqa: S104 - a text that is only compared

    settings = Settings.load(port=2, host=None)

    assert (settings.port, settings.host) == (2, "0.0.0.0")  # noqa: S104 - likewise


def test_the_disk_cache_reaches_the_warehouses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PAIMON_INDEX_DISK_CACHE", str(tmp_path / "cache"))
    settings = Settings.load(warehouses={"main": str(tmp_path)})
    for content_now in (b"content", b"gone"):
        (tmp_path / "file").write_bytes(content_now)
        service = create_service(settings)
        assert service.warehouses["main"].read_immutable("file", 7) == b"content"
        service.close()


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("WAREHOUSES", "{oops", "PAIMON_INDEX_WAREHOUSES: expected a JSON object"),
        ("WAREHOUSES", '["file:///x"]', "PAIMON_INDEX_WAREHOUSES: "),
        ("WAREHOUSES", '{"a/b": "file:///x"}', "'a/b' is not a warehouse name"),
        ("WAREHOUSES", '{"..": "file:///x"}', "'..' is not a warehouse name"),
        ("WAREHOUSES", '{"": "file:///x"}', "'' is not a warehouse name"),
        ("WAREHOUSES", '{"config": "file:///x"}', "'config' is reserved"),
        ("WAREHOUSES", '{"cache": "file:///x"}', "'cache' is reserved"),
        ("WAREHOUSES", '{"main": " "}', "warehouse 'main' has no URL"),
        ("WAREHOUSES", '{"main": 7}', "PAIMON_INDEX_WAREHOUSES[main]: "),
        ("ALLOW_EXTERNAL", '["s3://a"', "PAIMON_INDEX_ALLOW_EXTERNAL: expected a JSON list"),
        ("WATCH", "main.db.t", "PAIMON_INDEX_WATCH: 'main.db.t' begins with no configured warehouse: []"),
        ("WATCH", '["main"', "PAIMON_INDEX_WATCH: expected a JSON list"),
        (
            "ENGINE_WRITES_ONLY",
            "main",
            "PAIMON_INDEX_ENGINE_WRITES_ONLY: 'main' is not a configured warehouse",
        ),
        (
            "PUBLIC_URLS",
            '{"main": "s3://b"}',
            "PAIMON_INDEX_PUBLIC_URLS: 'main' is not a configured warehouse",
        ),
        ("PUBLIC_URLS", "s3://b", "PAIMON_INDEX_PUBLIC_URLS: expected a JSON object"),
        ("WATCH_SECONDS", "0", "PAIMON_INDEX_WATCH_SECONDS: "),
        ("PORT", "65536", "PAIMON_INDEX_PORT: "),
        ("DEADLINE_SECONDS", "0", "PAIMON_INDEX_DEADLINE_SECONDS: "),
        ("DEADLINE_SECONDS", "inf", "PAIMON_INDEX_DEADLINE_SECONDS: "),
        ("PAGE_SIZE_MAX", "10", "is below the default page size of 10000"),
        ("BODY_BYTES", "32 MiB", "PAIMON_INDEX_BODY_BYTES: "),
    ],
)
def test_bad_settings_are_told_by_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(f"PAIMON_INDEX_{variable}", value)

    with pytest.raises(SettingsError) as caught:
        Settings.load()

    assert message in str(caught.value)
    assert str(caught.value).startswith(f"PAIMON_INDEX_{variable}")


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("PAIMON_INDEX_PAGESIZE", ": did you mean PAIMON_INDEX_PAGE_SIZE?"),
        ("PAIMON_INDEX_TOKEN_FILE", ": did you mean PAIMON_INDEX_TOKENS_FILE?"),
        ("paimon_index_warehose", ": did you mean PAIMON_INDEX_WAREHOUSES?"),
        ("PAIMON_INDEX_XYZ", ""),
    ],
)
def test_a_misspelled_setting_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str, says: str) -> None:
    monkeypatch.setenv(variable, "3")

    with pytest.raises(SettingsError) as caught:
        Settings.load()

    assert str(caught.value) == f"{variable.upper()}: there is no such setting{says}"


@pytest.mark.parametrize(
    "variable",
    [
        "PAIMON_INDEX_TOKEN",
        "PAIMON_INDEX_SERVICE_HOST",
        "PAIMON_INDEX_SERVICE_PORT_HTTP",
        "PAIMON_INDEX_PORT_8080_TCP_ADDR",
        "PAIMON_INDEX_STAGING_PORT",
        "PAIMON_INDEXES",
    ],
)
def test_variables_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "tcp://10.0.0.1:8080")

    assert Settings.load() == Settings()


def test_a_public_url_is_absolute() -> None:
    with pytest.raises(
        SettingsError, match=r"PAIMON_INDEX_PUBLIC_URLS: '/data' of warehouse 'main' is not a URL"
    ):
        Settings.load(warehouses={"main": "file:///x"}, public_urls={"main": "/data"})


def test_credentials_of_a_url_are_not_told() -> None:
    with pytest.raises(SettingsError) as caught:
        create_service(Settings.load(warehouses={"main": "nowhere://user:pass@host/x"}))

    assert "nowhere://...@host/x" in str(caught.value)
    assert "pass" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shared_cache": "/shared"}, "SHARED_CACHE needs one of"),
        (
            {"shared_cache": "/shared", "shared_cache_key": "k" * 16, "shared_cache_private": True},
            "needs one of",
        ),
        (
            {"shared_cache": "/shared", "shared_cache_key": "k" * 16, "shared_cache_key_file": "f"},
            "needs one of",
        ),
        ({"shared_cache": "/shared", "shared_cache_key": "short"}, "SHARED_CACHE_KEY: a key has 16 to 4,096"),
        (
            {"shared_cache": "/shared", "shared_cache_key_file": "/none"},
            "SHARED_CACHE_KEY_FILE: cannot be read",
        ),
        (
            {"shared_cache": "/shared", "shared_cache_key_file": "/dev/zero"},
            "SHARED_CACHE_KEY_FILE: cannot be read: expected a regular file",
        ),
        ({"shared_cache": "/shared", "shared_cache_key": "k" * 4_097}, "a key has 16 to 4,096"),
        ({"shared_cache": "/data/shared", "shared_cache_private": True}, "lie inside of one another"),
        ({"shared_cache": "/", "shared_cache_private": True}, "lie inside of one another"),
        ({"shared_cache": "file:/data", "shared_cache_private": True}, "lie inside of one another"),
        (
            {"shared_cache": "nowhere://user:pass@host/x", "shared_cache_private": True},
            "nowhere://...@host/x",
        ),
    ],
)
def test_a_shared_cache_is_signed_and_outside_of_warehouses(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        create_service(Settings.load(warehouses={"main": "/data"}, **given))

    assert message in str(caught.value)
    assert "pass@" not in str(caught.value)


def test_a_link_does_not_lead_the_shared_cache_into_a_warehouse(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    (tmp_path / "known as").symlink_to(tmp_path / "data")
    for cache, warehouse in (("link/shared", "data"), ("data/shared", "known as"), ("link", "known as")):
        settings = Settings.load(
            warehouses={"main": f"{tmp_path}/{warehouse}"},
            shared_cache=f"{tmp_path}/{cache}",
            shared_cache_private=True,
        )
        with pytest.raises(SettingsError, match="lie inside of one another"):
            create_service(settings)


def test_the_key_of_the_shared_cache_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0123456789abcdef\n")
    (tmp_path / "key").chmod(0o400)
    given: dict[str, Any] = {
        "warehouses": {"main": str(tmp_path / "data")},
        "shared_cache": f"{tmp_path}/shared",
    }
    for key in ({"shared_cache_key_file": str(tmp_path / "key")}, {"shared_cache_key": "0123456789abcdef"}):
        settings = Settings.load(**given, **key)
        assert "0123456789abcdef" not in repr(settings)
        create_service(settings).close()


@pytest.mark.parametrize("name", ["main.db", "main.db.", "main..t", "main.db.a/b", "main.db/x.t"])
def test_a_watched_table_needs_a_name_of_three_parts(name: str) -> None:
    with pytest.raises(SettingsError, match=r"PAIMON_INDEX_WATCH: .* is not a table"):
        Settings.load(warehouses={"main": "file:///x"}, watch=(name,))


MIB = 1 << 20


def budget(mebibytes: int, **settings: object) -> MemoryBudget:
    return MemoryBudget.of(Settings.load(**settings), MemoryLimit(mebibytes * MIB, "a group"))


def test_shares_are_a_whole() -> None:
    assert sum(CACHE_SHARES.values()) == pytest.approx(1)


@given(mebibytes=st.integers(320, 1 << 16), workers=st.integers(1, 8))
def test_all_parts_fit_whatever_there_is(mebibytes: int, workers: int) -> None:
    found = budget(mebibytes * workers + 160, workers=workers)

    assert found.limit <= (mebibytes * workers + 160) * MIB // workers
    parts = (found.caches.total, found.bodies, found.claims)
    assert found.caches.total + found.bodies + PROCESS_BYTES <= found.limit
    assert found.claims + PROCESS_BYTES < found.limit
    assert min(parts) > 0
    assert min(found.caches.by_name.values()) > 0


def test_the_operator_may_say_how_much_there_is() -> None:
    found = budget(512, memory_bytes=4096 * MIB)

    assert (found.limit, found.source) == (4096 * MIB, "PAIMON_INDEX_MEMORY_BYTES")


@pytest.mark.parametrize(("mebibytes", "settings"), [(200, {}), (2048, {"workers": 8})])
def test_what_cannot_fit_is_an_error_that_says_what_to_do(
    mebibytes: int, settings: dict[str, object]
) -> None:
    with pytest.raises(SettingsError, match=r"a group.*give at least"):
        budget(mebibytes, **settings)
