# SPDX-License-Identifier: Apache-2.0
"""Results: from the lines of a file to comparisons, verdicts and what they rest on."""
