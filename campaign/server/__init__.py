"""A server's life: launch, adopt, wait, judge, stop."""
