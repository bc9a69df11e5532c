# SPDX-License-Identifier: Apache-2.0
"""The verb `bisect`: the commit that made an allocator worse."""
