"""Tracing: from a call of a NumPy function to a graph."""
