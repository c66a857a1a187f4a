"""Differentiation: graph to graph, by one table of rules."""
