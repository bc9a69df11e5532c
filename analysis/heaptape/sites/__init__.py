"""Call sites: who allocates, how much and for how long, and what changed between two recordings."""
