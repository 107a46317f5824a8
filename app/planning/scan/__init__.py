"""Makes a plan: one module for each pruning step, and the planner that takes them in order.

Only :mod:`app.planning.service` uses it, through :class:`~app.planning.scan.planner.Planner`.
"""
