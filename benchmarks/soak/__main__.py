"""``python -m benchmarks.soak``: many small tables under a memory limit, then callers over faulty storage."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.soak import callers, tables

_MIB: Final = 1 << 20


def main() -> int:
    """Run what the command line asks for; return 1 where something is not as it has to be."""
    asked = _arguments()
    with TemporaryDirectory(prefix="paimon-index-soak-") as directory:
        if asked.part == "tables":
            warehouse = tables.write_tables(Path(directory), asked.tables)
            many = tables.run(warehouse, asked.mebibytes * _MIB, asked.requests, asked.callers)
            print(many)
            faults = many.faults
        else:
            report = callers.run(
                Path(directory),
                seconds=asked.seconds,
                callers=asked.callers,
                limit=asked.mebibytes * _MIB,
                share=asked.spoilt / 100,
                copies=asked.copies,
            )
            print("| looked at | found |\n| --- | --- |")
            for name, found in report.rows():
                print(f"| {name} | {found} |")
            faults = report.faults
    for fault in faults:
        print(f"FAULT: {fault}")
    return 1 if faults else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    many = parts.add_parser("tables", help=tables.__doc__)
    many.add_argument("--tables", type=int, default=2_000)
    many.add_argument("--requests", type=int, default=20_000)
    many.add_argument("--callers", type=int, default=16)
    many.add_argument("--mebibytes", type=int, default=768, help="the limit")
    mixed = parts.add_parser("callers", help=callers.__doc__)
    mixed.add_argument("--seconds", type=float, default=240)
    mixed.add_argument("--callers", type=int, default=64)
    mixed.add_argument("--mebibytes", type=int, default=768, help="the limit")
    mixed.add_argument("--spoilt", type=float, default=2, help="percent of the storage's answers")
    mixed.add_argument("--copies", type=int, default=8, help="of each golden table")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
