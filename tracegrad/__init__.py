"""tracegrad: the gradient of a NumPy function, as readable Python source."""
