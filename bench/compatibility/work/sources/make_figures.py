# SPDX-License-Identifier: Apache-2.0
import sys

state = 12345


def draw():
    global state
    state = (state * 1103515245 + 12345) % 2**31
    return state


for i in range(int(sys.argv[1])):
    print(draw() % 100000, "name%d" % (draw() % 5000), draw() / 7)
