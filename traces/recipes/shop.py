# SPDX-License-Identifier: Apache-2.0
"""A shop's back end in small: what a Python web application does between its socket and its database, in one thread.

Requests come in two bursts with a pause between them, before which it drops what can be had again: JSON is read and checked, pages are rendered and parsed again,
sessions come and go, the catalogue is loaded and indexed, a report is written as CSV.
"""

from __future__ import annotations

import csv
import html
import io
import json
import random
import re
import string
import time
import urllib.parse
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from html.parser import HTMLParser

WORDS = ("anchor basil copper dune ember flint garnet harbour indigo jetty kelp lantern meadow nickel onyx pebble "
         "quarry ridge saffron tundra umber velvet willow yarrow zinc").split()
ROW = string.Template("<tr><td>$name</td><td class='price'>$price</td><td>$stock</td></tr>")
PAGE = string.Template("<html><head><title>$title</title></head><body><h1>$title</h1><table>$rows</table>"
                       "<p>Seen by $user; <a href='/basket?$query'>basket</a></p></body></html>")


@dataclass
class Session:
    user: str
    basket: list[tuple[int, int]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)


class Cells(HTMLParser):
    """What a test or a scraper would read off a page."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


class Shop:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self.index: defaultdict[str, set[int]] = defaultdict(set)
        self.pages: OrderedDict[str, str] = OrderedDict()
        self.sold: Counter[int] = Counter()

    def load(self, items: int) -> None:
        """The catalogue as another service would send it: written, read, indexed; the old one goes."""
        rng = self.rng
        sent = json.dumps([{"id": i, "name": " ".join(rng.choices(WORDS, k=3)), "price": rng.randrange(99, 99_999) / 100,
                            "stock": rng.randrange(200), "tags": rng.sample(WORDS, rng.randrange(1, 5)),
                            "text": " ".join(rng.choices(WORDS, k=rng.randrange(4, 60)))} for i in range(items)], indent=1)
        self.items = json.loads(sent)
        self.index.clear()
        for item in self.items:
            for word in re.findall(r"\w+", item["name"] + " " + item["text"]):
                self.index[word].add(item["id"])

    def forget(self) -> None:
        """Drops what can be had again, because nobody has come for a while."""
        self.items = []
        for kept in (self.sessions, self.index, self.pages, self.sold):
            kept.clear()

    def session(self) -> Session:
        name = f"s{int(self.rng.paretovariate(0.6)) % 3_000}"
        session = self.sessions.setdefault(name, Session(html.escape(f"<{name}> & co")))
        self.sessions.move_to_end(name)
        while len(self.sessions) > 400:
            self.sessions.popitem(last=False)
        return session

    def list_page(self, session: Session) -> str:
        word = self.rng.choice(WORDS)
        found = sorted(self.index[word] & self.index[self.rng.choice(WORDS)])[: self.rng.randrange(5, 25)]
        rows = "".join(ROW.substitute(name=html.escape(self.items[i]["name"].title()), price=f"{self.items[i]['price']:,.2f}",
                                      stock=self.items[i]["stock"]) for i in found)
        query = urllib.parse.urlencode({"from": word, "ids": ",".join(map(str, found))})
        page = PAGE.substitute(title=word.title(), rows=rows, user=session.user, query=html.escape(query))
        self.pages[word + query] = page
        while len(self.pages) > 250:
            self.pages.popitem(last=False)
        session.seen = [*session.seen[-20:], word]
        return page

    def buy(self, session: Session) -> str:
        item = self.rng.randrange(len(self.items))
        body = json.dumps({"item": item, "count": self.rng.randrange(1, 6), "note": "é" * self.rng.randrange(40)})
        order = json.loads(body)
        session.basket.append((order["item"], order["count"]))
        self.sold[order["item"]] += order["count"]
        return json.dumps({"user": session.user, "basket": [{"item": self.items[i], "count": n} for i, n in session.basket[-6:]]})

    def report(self) -> int:
        out = io.StringIO()
        writer = csv.writer(out)
        for item, count in self.sold.most_common():
            writer.writerow([self.items[item]["name"], count, round(count * self.items[item]["price"], 2)])
        return sum(int(row[1]) for row in csv.reader(io.StringIO(out.getvalue())))

    def burst(self, requests: int) -> int:
        size = 0
        for number in range(requests):
            session = self.session()
            if self.rng.random() < 0.6:
                answer = self.list_page(session)
                if number % 12 == 0:
                    cells = Cells()
                    cells.feed(answer)
                    size += len(cells.texts)
            else:
                answer = self.buy(session)
            size += len(answer.encode())
        return size + self.report()


def main() -> None:
    shop = Shop(random.Random(4711))
    shop.load(2_500)
    print(shop.burst(430))
    shop.forget()
    time.sleep(6)  # nobody comes
    for _ in range(5):
        time.sleep(1)  # a health check now and then
        print(len(json.dumps({"sessions": len(shop.sessions), "sold": shop.sold.total()})))
    shop.load(1_200)
    print(shop.burst(170))
    time.sleep(3)


main()
