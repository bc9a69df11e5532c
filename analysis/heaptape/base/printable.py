# SPDX-License-Identifier: Apache-2.0
"""What comes from outside, made fit to be read by people: names of programs, threads, files and allocators may hold anything,
and must not move a terminal's cursor, set its title, begin a line or turn the direction of the text."""

from __future__ import annotations

import re

# Control characters, those beyond ASCII too; what turns the direction of the text; ends of lines and paragraphs; bytes of
# file names that are no UTF-8.
_DANGEROUS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BYTE_THAT_IS_NO_UTF8 = range(0xDC80, 0xDD00)


def printable(text: str, keep: str = "") -> str:
    """The text with such characters in letters: \\x1b, \\u202e, \\xff for a byte that is no UTF-8. keep: those that are the
    text's own, as a document's newlines are."""
    def in_letters(match: re.Match[str]) -> str:
        code = ord(match[0])
        if match[0] in keep:
            return match[0]
        if code in _BYTE_THAT_IS_NO_UTF8:
            return f"\\x{code - 0xDC00:02x}"
        return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"
    return _DANGEROUS.sub(in_letters, text)


def markdown_escaped(text: str) -> str:
    """One line of Markdown that shows the text as it is, in a heading or a cell too: names may hold anything."""
    for mark in "\\|*_`<>":
        text = text.replace(mark, f"\\{mark}")
    return printable(text.replace("\n", " "))
