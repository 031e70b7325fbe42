"""Ports for servers of tests."""
import random
import socket

CHOICE = random.Random()  # of its own: a test may seed the other one
TAKEN = []  # sockets that keep ports from others


def free_port():
    """Of this machine, and not one that the kernel gives to clients. Until this process ends no other test gets it: a socket
    that does not listen is bound to it. Servers can bind it all the same, since they set SO_REUSEADDR, too."""
    while True:
        s = socket.socket()
        try:
            s.bind(("127.0.0.1", CHOICE.randrange(15000, 32000)))  # without SO_REUSEADDR: nobody else may be bound
        except OSError:
            s.close()
            continue
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        TAKEN.append(s)
        return s.getsockname()[1]
