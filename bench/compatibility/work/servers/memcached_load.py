# SPDX-License-Identifier: Apache-2.0
import hashlib
import socket
import sys
import threading


def ask(connection, text, end):
    connection.sendall(text)
    answer = b""
    while not answer.endswith(end):
        answer += connection.recv(65536)
    return answer


def load(seed, out):
    digest = hashlib.sha256()
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
        for i in range(4000):
            value = b"v" * (i * seed % 3000)
            key = b"k%d-%d" % (seed, i % 700)
            ask(connection, b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value), b"STORED\r\n")
            digest.update(ask(connection, b"get %s\r\n" % key, b"END\r\n"))
    out[seed] = digest.hexdigest()


out = {}
threads = [threading.Thread(target=load, args=(seed, out)) for seed in (3, 5, 7, 11)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(out.items()))
