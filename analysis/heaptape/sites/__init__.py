# SPDX-License-Identifier: Apache-2.0
"""Call sites: who allocates, how much and for how long, and what changed between two recordings."""
