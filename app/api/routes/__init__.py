"""The endpoints, one module for those of one subject."""
