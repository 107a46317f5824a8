"""Python with blocks pasted into it, in the environment of whoever follows a page.

Reads a JSON document a line (``language``, ``text``, ``settings``), and answers each with what the block
``printed`` and the ``error`` that ended it.
"""

import contextlib
import io
import json
import re
import sys
import traceback
from typing import Any

NAMES: dict[str, Any] = {}


def main() -> None:
    answers = sys.stdout
    for line in sys.stdin:
        printed, error = io.StringIO(), None
        with contextlib.redirect_stdout(printed):
            try:
                paste(**json.loads(line))
            except Exception:  # noqa: BLE001 - whatever a block raises is the answer
                error = traceback.format_exc()
        answers.write(json.dumps({"printed": printed.getvalue(), "error": error}) + "\n")
        answers.flush()


def paste(language: str, text: str, settings: dict[str, str]) -> None:
    if language == "properties":
        NAMES["spark"] = new_session(settings)
        return
    if "spark" not in NAMES and (language == "sql" or ("spark" in text and "SparkSession" not in text)):
        NAMES["spark"] = new_session({})
    if language == "python":
        exec(text, NAMES)  # noqa: S102 - our own page
        return
    for statement in re.sub(r"--.*", "", text).split(";"):
        if statement.strip():
            for row in NAMES["spark"].sql(statement).collect():
                print(*row, sep="\t")


def new_session(settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - most pages need no Spark

    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


if __name__ == "__main__":
    main()
