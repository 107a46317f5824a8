"""Whether a server keeps to its bounds, in real control groups and beside dear requests: ``make limits``."""
