"""How long the machinery takes and what memory, measured by commands."""
