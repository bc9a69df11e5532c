"""The verb `bisect`: the commit that made an allocator worse."""
