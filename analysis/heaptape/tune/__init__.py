# SPDX-License-Identifier: Apache-2.0
"""The verb `tune`: the search for an allocator's best knobs."""
