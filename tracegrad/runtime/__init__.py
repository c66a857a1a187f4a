"""The runtime: compiled functions, their cache and entry code."""
