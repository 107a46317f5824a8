"""Who may ask: tokens, the file that lists them, and addresses that only this machine reaches."""

from app.access.tokens import (
    EVERYBODY,
    EVERYTHING,
    Caller,
    Role,
    TokenBook,
    TokenFile,
    is_loopback,
    new_secret,
    stored_digest,
)

__all__ = [
    "EVERYBODY",
    "EVERYTHING",
    "Caller",
    "Role",
    "TokenBook",
    "TokenFile",
    "is_loopback",
    "new_secret",
    "stored_digest",
]
