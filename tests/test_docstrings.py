"""Docstrings say errors and arguments in the form of CONTRIBUTING.md."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ERROR = r"[A-Z]\w*(?:Error|Disconnect)"
OTHER_FORMS = re.compile(
    rf"^\s+(?:Args|Raises|Returns|Yields):$|(?:^|[.;]|\"\"\")\s*(?:Raises )?{ERROR}: ", re.MULTILINE
)


def test_errors_and_arguments_have_one_form() -> None:
    texts = {path: path.read_text() for room in ("app", "client") for path in (ROOT / room).rglob("*.py")}
    docstrings = {
        path: "\n".join(re.findall(r'"""(.*?)"""', text, re.DOTALL)) for path, text in texts.items()
    }

    assert {path: match for path, text in docstrings.items() if (match := OTHER_FORMS.search(text))} == {}
