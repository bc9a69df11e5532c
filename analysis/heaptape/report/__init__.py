"""Draws and prints results: the HTML report, and tables for terminals and programs."""
