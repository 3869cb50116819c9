"""Campaign: profiling campaigns of LLM servers that survive crashes and write one living document."""

__version__ = "0.1.0"
