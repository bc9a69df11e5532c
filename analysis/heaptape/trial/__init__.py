# SPDX-License-Identifier: Apache-2.0
"""The verb `try`: from a command to the answer."""
