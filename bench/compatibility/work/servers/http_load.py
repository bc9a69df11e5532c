# SPDX-License-Identifier: Apache-2.0
import concurrent.futures
import hashlib
import sys
import urllib.request


def fetch(_):
    with urllib.request.urlopen(sys.argv[1]) as answer:
        return hashlib.sha256(answer.read()).hexdigest()


with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(set(pool.map(fetch, range(int(sys.argv[2])))))
