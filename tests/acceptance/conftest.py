"""Acceptance tests know the service by its HTTP contract only; they share the server of the API's tests."""

from __future__ import annotations

from tests.api.conftest import client, serve

__all__ = ["client", "serve"]
