"""Sections in a person's markdown: find, splice, merge."""
