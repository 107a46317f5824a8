"""The Dockerfile keeps to what the project has."""

import os
import re
import ssl
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from app.settings import ENVIRONMENT_PREFIX, Settings

ROOT = Path(__file__).parent.parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()
# Of the image: jobs, documentation and tests are no part of it.
EXTRAS = ("s3", "gcs", "azure", "oss", "hdfs", "otel")
LAST_STAGE = DOCKERFILE.rpartition("\nFROM ")[2]


def test_settings_of_the_image_exist() -> None:
    named = re.findall(rf"{ENVIRONMENT_PREFIX}([A-Z_]+)=", DOCKERFILE)

    assert named
    assert {name.lower() for name in named} <= set(Settings.model_fields)


def test_storages_are_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert {"s3", "gcs", "azure", "oss"} <= set(project["optional-dependencies"])
    assert "\nARG EXTRAS=s3\n" in DOCKERFILE


def test_every_version_that_the_image_may_install_is_the_pinned_one_and_has_hashes() -> None:
    entries = re.split(r"\n(?=\S)", (ROOT / "container" / "hashes.txt").read_text().strip())[1:]
    hashed = {entry.split()[0] for entry in entries if "--hash=sha256:" in entry}
    pinned = {
        f"{canonicalize_name(name)}=={version}"
        for name, version in (line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [
        project["optional-dependencies"][name] for name in ("s3", "gcs", "azure", "oss", "hdfs", "otel")
    ]
    required = {canonicalize_name(Requirement(text).name) for text in chain(project["dependencies"], *extras)}

    assert len(hashed) == len(entries)
    assert hashed <= pinned
    assert required | {"pip", "hatchling"} <= {each.split("==")[0] for each in hashed}


def test_the_image_installs_nothing_without_a_hash() -> None:
    script = (ROOT / "container" / "install.sh").read_text().replace("\\\n", "")
    installs = re.findall(r"^\$pip .*install .*$", script, re.MULTILINE)

    assert len(installs) == 3
    assert [line for line in installs if "--require-hashes" not in line] == []


def test_the_last_stage_takes_the_installation_and_runs_nothing_of_the_checkout() -> None:
    copies = re.findall(r"^COPY (.+)$", LAST_STAGE, re.MULTILINE)

    assert copies == [
        "--from=build /opt/paimon-index /opt/paimon-index",
        "--from=catalog /src/jvm/target/paimon-index-catalog-*.jar /opt/paimon-index/jvm/",
        "LICENSE NOTICE container/healthcheck.py /opt/paimon-index/share/",
    ]


def test_only_what_the_wheel_is_made_from_is_sent_to_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]

    assert rules[0] == "*"
    assert not {"!tests", "!demo", "!.git", "!.venv"} & set(rules)


def test_the_jar_has_the_version_of_the_service() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    module = (ROOT / "jvm" / "pom.xml").read_text()

    assert f"<artifactId>paimon-index-catalog</artifactId>\n  <version>{version}</version>" in module


PROGRAM = Path(__file__).parent.parent.parent / "container" / "healthcheck.py"


class Service(BaseHTTPRequestHandler):
    statuses: dict[str, int] = {}  # noqa: RUF012 - of the test

    def do_GET(self) -> None:
        self.send_response(self.statuses.get(self.path, 404))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
        pass


class Quiet(ThreadingHTTPServer):
    """What comes in plain text to a server of TLS is its caller's mistake."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Quiet]:
    Service.statuses = {"/health/live": 200}
    with Quiet(("127.0.0.1", 0), Service) as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        yield listener
        listener.shutdown()
        thread.join()


@pytest.fixture
def certified(server: Quiet, tmp_path: Path) -> Quiet:
    """Return the server with a certificate for another name than its address."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "index.example.com")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "tls.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server


def check(port: int, host: str = "0.0.0.0") -> subprocess.CompletedProcess[str]:  # noqa: S104 - as in the image
    environment = {
        **os.environ,
        "PAIMON_INDEX_HOST": host,
        "PAIMON_INDEX_PORT": str(port),
        # Nothing that a proxy answers tells of this service.
        "http_proxy": "http://127.0.0.1:9",
    }
    command = [sys.executable, "-I", str(PROGRAM)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "localhost"])  # noqa: S104 - as in the image
def test_a_service_that_answers_is_healthy(server: Quiet, host: str) -> None:
    assert check(server.server_port, host).returncode == 0


def test_a_service_with_tls_is_healthy_whatever_its_certificate_names(certified: Quiet) -> None:
    assert check(certified.server_port).returncode == 0


def test_a_service_that_answers_otherwise_is_not(server: Quiet) -> None:
    Service.statuses = {"/health/live": 503}

    done = check(server.server_port)

    assert done.returncode == 1
    assert "503" in done.stderr


def test_no_service_is_not_healthy(server: Quiet) -> None:
    port = server.server_port
    server.shutdown()
    server.server_close()

    done = check(port)

    assert done.returncode == 1
    assert "does not answer" in done.stderr
