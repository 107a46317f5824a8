"""The HTTP service: routes, request bodies, answers and problems, for ``app.main`` and the commands."""
