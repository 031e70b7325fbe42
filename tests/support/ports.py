"""Ports for servers of tests."""
import random
import socket

CHOICE = random.Random()  # of its own: a test may seed the other one


def free_port():
    """Of this machine, and not one that the kernel gives to clients: nobody takes it before the server listens, or while it
    is restarted."""
    while True:
        port = CHOICE.randrange(15000, 32000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
