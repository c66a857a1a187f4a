"""Tracing: a user's NumPy function in, a graph of ops out."""
