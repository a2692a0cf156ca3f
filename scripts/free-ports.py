"""free-ports.py N   prints N ports of 127.0.0.1 in a row that nobody has. They are below
those that the kernel gives to whoever asks for any, so that they stay free until a
broker takes them, and while it is killed and comes back."""

import contextlib
import random
import socket
import sys

count = int(sys.argv[1])
for _ in range(1000):
    first = random.randrange(11000, 19000)
    with contextlib.ExitStack() as held:
        try:
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            continue
    print(*range(first, first + count))
    sys.exit()
sys.exit("no %d ports in a row are free" % count)
