"""The measurement scripts, one process each; imported by nobody."""
