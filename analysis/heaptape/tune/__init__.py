"""The verb `tune`: the search for an allocator's best knobs."""
