"""``python -m tests.contract``: schemathesis asks a server whatever ``openapi.yaml`` allows, and much else.

No answer is a 5xx, and each has a status, media type, headers and body as described, without further members.
That a request which the description allows is refused is no fault: it cannot say that at most one of three
members names a version.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from tests import golden_cases
from tests.served import serving

_CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.contract", description=__doc__)
    parser.add_argument("tool", type=Path, help="the program: .tools/schemathesis/bin/st")
    parser.add_argument("--examples", default="60", help="of each endpoint, in each phase")
    parser.add_argument("--seed", default="1")
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="paimon-index-contract-") as directory:
        golden = golden_cases.unpack(Path(directory))
        with serving(golden.root) as served:
            config = str(Path(__file__).with_suffix(".toml"))
            command = [str(asked.tool.absolute()), "--config-file", config, "run"]
            url = f"http://127.0.0.1:{served.port}"
            described = Path(directory) / "openapi.json"
            described.write_text(
                json.dumps(_without_further_members(httpx.get(f"{url}/openapi.json", timeout=120).json()))
            )
            command += [str(described), "--url", url, "--checks", ",".join(_CHECKS)]
            command += ["--max-examples", asked.examples, "--seed", asked.seed]
            return subprocess.run(command, cwd=directory, check=False).returncode  # noqa: S603 - ours


def _without_further_members(document: dict[str, Any]) -> dict[str, Any]:
    """Return the description of answers that have the members alone that it names.

    Clients are to expect others.
    """
    for schema in document["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return document


if __name__ == "__main__":
    sys.exit(main())
