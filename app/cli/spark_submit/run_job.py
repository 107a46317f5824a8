"""Job for ``spark-submit run_job.py build-index sales.orders --warehouse s3://lake``."""

from __future__ import annotations

import sys

from app.cli.job import program
from app.cli.output import print_error
from app.errors import PaimonIndexError


def main() -> None:
    """Run the job of the arguments."""
    try:
        program()
    except PaimonIndexError as error:
        print_error(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
