# SPDX-License-Identifier: Apache-2.0
"""Draws and prints results: the HTML report, and tables for terminals and programs."""
