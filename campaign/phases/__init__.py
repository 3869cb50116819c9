"""One small module a kind of phase; `catalog` lists them in order."""
