# SPDX-License-Identifier: Apache-2.0
"""Decides what runs show: which allocator is faster or smaller, how sure that is, and how many more rounds it takes."""
