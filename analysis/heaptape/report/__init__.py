"""What is drawn and printed of results: the HTML report, and tables for terminals and programs."""
