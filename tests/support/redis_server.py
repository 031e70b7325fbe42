"""A redis-server of a test, and what can happen to it: it dies, hangs, is full, is slow, or answers other bytes."""
import contextlib
import socket
import subprocess
import threading
import time

from support.ports import free_port


class Redis:
    """A server of its own, without files."""

    options = []

    def __init__(self, password=None):
        self.password = password
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self):
        self.process = subprocess.Popen(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                                         "--appendonly", "no", "--requirepass", self.password or "",
                                         *map(str, self.options)], stdout=subprocess.DEVNULL)
        end = time.time() + 300
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            assert time.time() < end and self.process.poll() is None, "redis-server does not listen"
            time.sleep(0.05)

    def do(self, *words):
        """The first line of the reply, or the bytes of a bulk."""
        sent = [("AUTH", self.password)] * bool(self.password) + [words]
        with socket.create_connection(("127.0.0.1", self.port), 300) as s, s.makefile("rb") as f:
            for command in sent:
                s.sendall(b"*%d\r\n" % len(command) + b"".join(
                    b"$%d\r\n%s\r\n" % (len(w), w) for w in (str(w).encode() for w in command)))
                line = f.readline().decode().strip()
            return f.read(int(line[1:])).decode() if line.startswith("$") and line != "$-1" else line

    def errors(self, code):
        """How often it has answered with an error of this code: OOM, READONLY ..."""
        script = f"return redis.call('INFO', 'errorstats'):match('errorstat_{code}:count=(%d+)') or '0'"
        return int(self.do("EVAL", script, "0"))

    def copies(self):
        """Those that are complete: one that is being written has a lock beside it, and no header."""
        script = ("local n = 0 for _, k in ipairs(redis.call('KEYS', 'SPOLIA:*:copy:*')) do "
                  "if not k:find(':lock$') then n = n + redis.call('HEXISTS', k, 'head') end end return n")
        return int(self.do("EVAL", script, "0").lstrip(":"))

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(18)  # SIGCONT
        self.kill()


class Proxy:
    """Between a client and a server: what the server says is delayed by `latency_s` and passes at `rate` bytes a
    second; 0: at once. refusal: what a client gets that says something, in place of an answer; None: an answer."""

    def __init__(self, port):
        self.port_of_server, self.latency_s, self.rate, self.n_delayed = port, 0.0, 0.0, 0
        self.refusal, self.n_refused = None, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                try:
                    server = socket.create_connection(("127.0.0.1", self.port_of_server))
                except OSError:  # it is down
                    client.close()
                    continue
                for pair in ((client, server, False), (server, client, True)):
                    pair[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self.carry, args=pair, daemon=True).start()

    def carry(self, source, to, delayed):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.refusal and not delayed:
                    self.n_refused += 1
                    source.sendall(self.refusal)
                    break
                if delayed and (self.latency_s or self.rate):
                    time.sleep(self.latency_s + (len(data) / self.rate if self.rate else 0))
                    self.n_delayed += 1
                to.sendall(data)
        for s in (source, to):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.listener.close()
