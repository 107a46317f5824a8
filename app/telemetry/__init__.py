"""How the service is doing: metrics, a log line for each request, and traces.

What happens is told by :mod:`app.observation`; the rooms below know nothing of the libraries used here.
"""
