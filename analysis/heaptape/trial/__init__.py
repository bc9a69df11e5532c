"""The verb `try`: from a command to the answer."""
