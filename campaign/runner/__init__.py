"""The runner: walks the todo list, measures, analyzes, writes the document, saves."""
