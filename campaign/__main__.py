"""`python -m campaign`: the command line."""

from __future__ import annotations

from campaign.cli import main

if __name__ == "__main__":
    main()
