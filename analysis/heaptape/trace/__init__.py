"""A trace: its bytes, its events, and what follows from it alone."""
