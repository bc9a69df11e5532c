"""The verb `validate`: predictions beside the real program."""
