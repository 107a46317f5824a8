"""Tokens, the file that lists them, and addresses that only this machine reaches."""

from app.access.tokens import (
    EVERYBODY,
    Caller,
    Role,
    TokenBook,
    TokenFile,
    ip_address,
    is_loopback,
    new_secret,
    stored_digest,
)

__all__ = [
    # The caller of a service without tokens.
    "EVERYBODY",
    # A caller's name, and the tables that they may see.
    "Caller",
    # A caller's rights.
    "Role",
    # The tokens of one file, by the SHA-256 digest of their secrets.
    "TokenBook",
    # The tokens file, read again when it changes.
    "TokenFile",
    # Parses an address; IPv4 in IPv6 form becomes IPv4.
    "ip_address",
    # Returns True if all addresses of a host are loopback.
    "is_loopback",
    # A secret that nobody can guess.
    "new_secret",
    # The digest that a tokens file holds of a secret.
    "stored_digest",
]
