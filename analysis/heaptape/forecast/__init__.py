# SPDX-License-Identifier: Apache-2.0
"""RSS at a later time under each allocator, with an interval, from several stretches of one recording."""
