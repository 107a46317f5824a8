"""How many examples a property test looks at, by the profile of the run."""

from typing import Any

from hypothesis import settings


def examples(count: int, **others: Any) -> settings:
    """Return settings for a test whose examples are cheaper, or dearer, than most."""
    return settings(max_examples=max(1, count * settings().max_examples // 100), **others)
