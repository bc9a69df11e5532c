# SPDX-License-Identifier: Apache-2.0
"""A trace: its bytes, its events, and what follows from it alone."""
