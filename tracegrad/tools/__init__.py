"""Tools: the command line, reports and checks."""
