from tests.api.conftest import client, serve

__all__ = ["client", "serve"]
