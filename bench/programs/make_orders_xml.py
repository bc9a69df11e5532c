# SPDX-License-Identifier: Apache-2.0
"""Prints orders as XML, always the same. Usage: make_orders_xml.py ORDERS"""

from __future__ import annotations

import random
import sys

WORDS = "anvil bellows chisel drill easel file gauge hammer iron jig knife lathe mallet nail pliers rasp saw tongs vice wedge".split()
rng = random.Random(31)
print("<orders>")
for number in range(int(sys.argv[1])):
    print(f'<order id="{number}" town="{rng.choice(WORDS)}ton"><customer>{rng.choice(WORDS).title()} &amp; {rng.choice(WORDS).title()}</customer>')
    for _ in range(rng.randrange(1, 7)):
        print(f'  <line count="{rng.randrange(1, 9)}" price="{rng.randrange(99, 9999) / 100}"><name>{" ".join(rng.choices(WORDS, k=3))}</name></line>')
    print(f"  <note>{' '.join(rng.choices(WORDS, k=rng.randrange(25)))}</note></order>")
print("</orders>")
