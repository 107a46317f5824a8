# ruff: noqa: INP001 - a program of its own, in no package
"""Puts a directory into a bucket, and makes it and others: ``fill_bucket.py DIRECTORY BUCKET OTHER ...``.

``compose.yaml`` runs it in the service's image. AWS's environment variables name the store and its keys;
what the bucket has by the same names is replaced.
"""

from __future__ import annotations

import sys
from pathlib import Path

import boto3


def main(directory: Path, bucket: str, *others: str) -> None:
    """Upload every file below ``directory``, by its path from there."""
    store = boto3.client("s3", region_name="us-east-1")
    for each in (bucket, *others):
        store.create_bucket(Bucket=each)
    files = [path for path in directory.rglob("*") if path.is_file()]
    for path in files:
        store.upload_file(str(path), bucket, path.relative_to(directory).as_posix())
    sys.stdout.write(f"{len(files)} files are in s3://{bucket}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
