"""The verb `fleet`: many traces on many machines."""
