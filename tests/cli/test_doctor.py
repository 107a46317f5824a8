"""``doctor`` says what is wrong, and what to do about it."""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fsspec.registry import _registry
from typer.testing import CliRunner

from app.cli import program
from tests.faulty_store import BUCKET, Fault, Store
from tests.golden_cases import GoldenWarehouse


def diagnose(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(program, ["doctor", "--json", *arguments])
    document = json.loads(result.stdout)
    assert document["healthy"] == (result.exit_code == 0)
    return result.exit_code, {each["check"]: each for each in document["checks"]}


def test_all_is_well(golden: GoldenWarehouse) -> None:
    status, checks = diagnose("--warehouse", f"main={golden.root}")

    assert status == 0
    assert checks.keys() >= {"settings", "memory", "clock", "warehouse main"}
    assert "can be read" in checks["warehouse main"]["found"]


def test_people_read_a_line_for_each_check(golden: GoldenWarehouse) -> None:
    result = CliRunner().invoke(program, ["doctor", "--warehouse", f"main={golden.root}"])

    assert [line.split()[0] for line in result.stdout.splitlines()][:2] == ["ok", "ok"]


def test_a_warehouse_that_is_not_there(tmp_path: Path) -> None:
    status, checks = diagnose("--warehouse", f"main={tmp_path / 'none'}")

    assert status == 1
    assert checks["warehouse main"]["outcome"] == "failed"
    assert "check the URL" in checks["warehouse main"]["advice"]


def test_a_warehouse_without_databases(tmp_path: Path) -> None:
    status, checks = diagnose("--warehouse", f"main={tmp_path}")

    assert (status, checks["warehouse main"]["outcome"]) == (0, "warning")


@pytest.mark.parametrize(
    ("variable", "value", "check"),
    [
        ("PAGE_SIZE", "none", "settings"),
        ("MEMORY_BYTES", "1000000", "memory"),
        ("DISK_CACHE", "/proc/none", "disk cache"),
    ],
)
def test_what_cannot_work_is_told(
    monkeypatch: pytest.MonkeyPatch, golden: GoldenWarehouse, variable: str, value: str, check: str
) -> None:
    monkeypatch.setenv(f"PAIMON_INDEX_{variable}", value)

    status, checks = diagnose("--warehouse", f"main={golden.root}")

    assert (status, checks[check]["outcome"]) == (1, "failed")
    assert checks[check]["advice"]


@pytest.mark.parametrize(
    ("variable", "check"), [("TMPDIR", "temporary files"), ("PAIMON_INDEX_DISK_CACHE", "disk cache")]
)
def test_a_directory_in_memory_is_told(
    monkeypatch: pytest.MonkeyPatch, golden: GoldenWarehouse, variable: str, check: str
) -> None:
    with TemporaryDirectory(dir="/dev/shm") as directory:
        monkeypatch.setenv(variable, directory)
        status, checks = diagnose("--warehouse", f"main={golden.root}")

    assert (status, checks[check]["outcome"]) == (0, "warning")
    assert "is in memory" in checks[check]["found"]


@pytest.mark.parametrize(
    ("refused", "permission"), [("", "s3:ListBucket"), ("sales.db/orders/schema/schema-0", "s3:GetObject")]
)
def test_a_missing_permission_is_named(
    monkeypatch: pytest.MonkeyPatch, refused: str, permission: str
) -> None:
    objects = {"sales.db/orders/schema/schema-0": b"{}"}
    with Store(objects, lambda key: Fault.FORBIDDEN if key == refused else None).serving() as options:
        monkeypatch.setenv("AWS_ENDPOINT_URL", options["endpoint"])
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["access_key_id"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["secret_access_key"])
        status, checks = diagnose("--warehouse", f"main=s3://{BUCKET}")

    assert status == 1
    assert permission in checks["warehouse main"]["advice"]


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [("abfss://t@lake.dfs.core.windows.net/w", "adlfs", "[azure]"), ("oss://t/w", "ossfs", "[oss]")],
)
def test_a_missing_library_is_to_be_installed(
    monkeypatch: pytest.MonkeyPatch, url: str, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(_registry, url.partition(":")[0], raising=False)

    _, checks = diagnose("--warehouse", f"main={url}")

    assert package in checks["warehouse main"]["found"]
    assert "install" in checks["warehouse main"]["advice"]
    assert extra in checks["warehouse main"]["advice"]


def test_hadoop_s_directory_of_settings_is_named_where_no_name_node_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    _, checks = diagnose("--warehouse", "main=hdfs:///warehouse")

    assert checks["warehouse main"]["outcome"] == "failed"
    assert "HADOOP_CONF_DIR" in checks["warehouse main"]["advice"]


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PAIMON_INDEX_SHARED_CACHE", str(tmp_path / "shared"))
    monkeypatch.setenv("PAIMON_INDEX_SHARED_CACHE_KEY", "0123456789abcdef")
    return tmp_path / "shared"


def test_a_shared_cache_is_written_to_and_left_as_it_was(golden: GoldenWarehouse, shared: Path) -> None:
    status, checks = diagnose("--warehouse", f"main={golden.root}")

    assert (status, checks["shared cache"]["outcome"]) == (0, "ok")
    assert "entries are signed" in checks["shared cache"]["found"]
    assert not any(path.is_file() for path in shared.rglob("*"))


@pytest.mark.usefixtures("shared")
def test_a_shared_cache_inside_of_a_warehouse(golden: GoldenWarehouse, tmp_path: Path) -> None:
    status, checks = diagnose("--warehouse", f"main={golden.root}", "--warehouse", f"other={tmp_path}")

    assert (status, checks["shared cache"]["outcome"]) == (1, "failed")
    assert "lie inside of one another" in checks["shared cache"]["found"]


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize(
    ("variable", "value", "advice"),
    [
        ("PAIMON_INDEX_SHARED_CACHE", "/proc/none", ""),
        ("PAIMON_INDEX_SHARED_CACHE_KEY", "short", "docs/settings.md"),
    ],
)
def test_a_shared_cache_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, golden: GoldenWarehouse, variable: str, value: str, advice: str
) -> None:
    monkeypatch.setenv(variable, value)
    status, checks = diagnose("--warehouse", f"main={golden.root}")

    assert (status, checks["shared cache"]["outcome"]) == (1, "failed")
    assert value in checks["shared cache"]["found"] or variable in checks["shared cache"]["found"]
    assert checks["shared cache"]["advice"]
    assert advice in checks["shared cache"]["advice"]
