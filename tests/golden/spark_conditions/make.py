"""Asks Spark's own parser which conditions it takes, and writes ``conditions.json``.

Run it in an environment with pyspark 4.0 and Java 17, from any directory::

    python tests/golden/spark_conditions/make.py

What is asked: the lines of ``written.txt``, an example of every function of Spark as its documentation has
it, and variants of all of these in which a few tokens are left out, doubled, swapped or replaced by a word of
another place. The variants depend on nothing but the texts.
"""

from __future__ import annotations

import json
import logging
import random
import re
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
VARIANTS = 1_500
STRANGE = ["~~", "->", "::", "=>", "**", "//", "@", "#", "$$", "AND", "NOT", "IS", "IN", "AS", "(", ")", ",", "||"]
TOKEN = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\w+|->|=>|::|\|\||<=>|[<>!=]=|<>|\S")
UNDECIDED = re.compile(r"[?:*]")
"""Stars and parameters: Spark parses them in many places, but can use them in few."""


def examples(spark: Any) -> list[str]:
    """The first example of every function that is a single expression, made a condition."""
    found: list[str] = []
    registry = spark._jsparkSession.sessionState().functionRegistry()
    identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    for (name,) in sorted(spark.sql("SHOW FUNCTIONS").collect()):
        info = registry.lookupFunction(identifier(name))
        text = info.get().getExamples() if info.isDefined() else ""
        example = re.search(r"^\s*>\s*SELECT\s(.*?);\s*$", text, re.MULTILINE | re.DOTALL)
        if example is not None and not re.search(r"\bFROM VALUES|\bAS\b\s*\w*$", example.group(1)):
            found.append(f"({' '.join(example.group(1).split())}) IS NOT NULL")
    return found


def variants(texts: list[str]) -> list[str]:
    """Texts with a fault or two, most of them."""
    chance = random.Random(11)
    words = [token for text in texts for token in TOKEN.findall(text)]
    found: list[str] = []
    while len(found) < VARIANTS:
        tokens = TOKEN.findall(chance.choice(texts))
        for _ in range(chance.randint(1, 2)):
            at = chance.randrange(len(tokens))
            match chance.randrange(5):
                case 0 if len(tokens) > 1:
                    del tokens[at]
                case 1:
                    tokens.insert(at, tokens[at])
                case 2:
                    other = chance.randrange(len(tokens))
                    tokens[at], tokens[other] = tokens[other], tokens[at]
                case 3:
                    tokens[at] = chance.choice(words)
                case _:
                    tokens.insert(at, chance.choice(STRANGE))
        text = " ".join(tokens)
        if not UNDECIDED.search(text.replace("::", "")):
            found.append(text)
    return found


def main() -> None:
    logging.disable()
    builder = import_module("pyspark.sql").SparkSession.builder
    spark = builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    parser = getattr(spark._jvm.org.apache.spark.sql.catalyst.parser, "CatalystSqlParser$")

    def parses(text: str) -> bool:
        try:
            expression = getattr(parser, "MODULE$").parseExpression(text)
        except Exception:
            return False
        # As an item of SELECT a condition could have a name; behind WHERE it cannot.
        return expression.getClass().getSimpleName() not in ("Alias", "MultiAlias")

    written = (HERE / "written.txt").read_text().splitlines()
    told = [*written, *(text for text in examples(spark) if parses(text))]
    verdicts = {text: parses(text) for text in dict.fromkeys([*told, *variants(told)])}
    content = {
        "spark": spark.version,
        "parsed": [text for text, is_parsed in verdicts.items() if is_parsed],
        "refused": [text for text, is_parsed in verdicts.items() if not is_parsed],
    }
    (HERE / "conditions.json").write_text(json.dumps(content, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
