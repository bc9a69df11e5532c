# SPDX-License-Identifier: Apache-2.0
"""Prints a manual page of so many sections, or a PDF of so many pages of text, the same on every machine: make_pages.py man|pdf N"""

from __future__ import annotations

import random
import sys

WORDS = "the of allocator page block slot trace call heap cost cache line miss thread record replay size class free list".split()
RANDOM = random.Random(20817)


def words(count: int) -> str:
    return " ".join(RANDOM.choice(WORDS) for _ in range(count))


def manual(sections: int) -> str:
    lines = [".TH WORK 1 2020-01-01", ".SH NAME", "work \\- a page"]
    for section in range(sections):
        lines.append(f".SH SECTION {section}")
        for option in range(12):
            lines += [".TP", f'.BI \\-\\-option{section}.{option} " value"', *(f"{words(12).capitalize()}." for _ in range(6)),
                      ".IP \\(bu 2", f"\\fBbold\\fR and \\fIitalic\\fR {words(1)}"]
    return "\n".join(lines)


def pdf(pages: int) -> str:
    numbers = range(4, 4 + 2 * pages, 2)  # after the three objects of the document
    kids = " ".join(f"{number} 0 R" for number in numbers)
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Count {pages} /Kids [{kids}] >>",
               "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>"]
    for number in numbers:
        lines = [f"1 0 0 1 {50 + 250 * column} {760 - 14 * row} Tm ({words(6)}) Tj" for row in range(50) for column in range(2)]
        text = "\n".join(["BT /F1 10 Tf", *lines, "ET"])
        objects += [f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {number + 1} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
                    f"<< /Length {len(text)} >>\nstream\n{text}\nendstream"]
    made, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    return f"{made}xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(made)}\n%%EOF"


if __name__ == "__main__":
    print({"man": manual, "pdf": pdf}[sys.argv[1]](int(sys.argv[2])))
