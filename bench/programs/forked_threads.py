# SPDX-License-Identifier: Apache-2.0
"""Four workers of three threads inherit data of which half was freed, keep what they allocate for ten seconds, and end."""

import os
import threading
import time

data = [bytes(4000) for _ in range(20_000)]
del data[::2]


def serve(worker):
    kept = []
    for request in range(4000):
        kept = kept[-1500:] + [bytes(1500 + (request * 37 + worker) % 2000)]
    time.sleep(10)


for worker in range(4):
    if os.fork() == 0:
        threads = [threading.Thread(target=serve, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os._exit(0)
for worker in range(4):
    os.wait()
