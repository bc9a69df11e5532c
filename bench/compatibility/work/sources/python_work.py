# SPDX-License-Identifier: Apache-2.0
import hashlib
import json
import multiprocessing
import subprocess
import sys
import threading


def records(n):
    return [{"id": i, "name": "n%d" % (i * 7919 % 1013), "tags": [str(i % k) for k in range(1, 9)]}
            for i in range(n)]


def work(seed, out):
    text = json.dumps(records(6000 + seed))
    out[seed] = hashlib.sha256(json.dumps(json.loads(text), sort_keys=True).encode()).hexdigest()


def sum_of_texts(n):
    return sum(int(str(i) * 3) for i in range(n))


if __name__ == "__main__":
    out = {}
    threads = [threading.Thread(target=work, args=(i, out)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sorted(out.items()))
    for i in range(5):
        child = subprocess.run([sys.executable, "-c", "print(sum(map(int, input().split())))"],
                               input=" ".join(map(str, range(i * 1000))), capture_output=True,
                               text=True)
        print(child.stdout.strip())
    with multiprocessing.Pool(3) as pool:
        print(pool.map(sum_of_texts, range(2000, 20000, 2000)))
