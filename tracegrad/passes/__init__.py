"""Passes: graph to graph, same meaning, better form."""
