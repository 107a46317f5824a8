"""Makes a plan: one module per pruning step, and the planner that runs them in order."""
