"""The command line: parse, call the core, print, return a code."""
