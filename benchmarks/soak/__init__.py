"""Long runs that hold a server to its promises under load: ``make soak``."""
