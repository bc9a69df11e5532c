# SPDX-License-Identifier: Apache-2.0
"""A service of several processes as one: what all take together, each page counted once, and what they would take under another malloc."""
