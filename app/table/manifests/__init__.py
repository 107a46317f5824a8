"""Manifests, manifest lists and index manifests as columns and entries, in whichever format they are."""
