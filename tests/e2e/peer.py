"""A server that speaks just enough of the OpenAI API to be compared with: it waits, then streams.

It remembers what it was asked. `mode` is what it does wrong, if anything.
"""
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body, kind="application/json"):
        data = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def event(self, text):
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def do_GET(self):
        self.server.keys.append(self.headers.get("Authorization"))
        self.reply(200, json.dumps({"data": [{"id": "first"}, {"id": "second"}]}))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        mode, server = self.server.mode, self.server
        server.keys.append(self.headers.get("Authorization"))
        if self.path == "/v1/completions" and mode == "chat only":
            return self.reply(404, '{"error": {"message": "no such path"}}')
        server.asked.append((self.path, body))
        if mode == "status 500" or (mode == "fails later" and len(server.asked) > 3):
            return self.reply(500, '{"error": {"message":\n "out of order"}}')
        if mode == "no stream":
            return self.reply(200, '{"choices": [{"text": "x"}]}')
        chat = self.path.endswith("/chat/completions")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.event(": a comment\n\n")
        if mode == "an error event":
            self.event('data: {"error": {"message": "no memory"}}\n\n')
        if chat:
            self.event('data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}\n\n')
        if server.together:
            server.together.wait(300)
        time.sleep(server.delay)
        if mode == "broken stream":
            self.close_connection = True
            return None  # without the last chunk
        if mode != "no token":
            choice = {"delta": {"content": "x"}} if chat else {"text": "x"}
            line = "data: " + json.dumps({"choices": [choice]}) + "\r\n\r\n"
            self.event(line[:20])
            self.event(line[20:])  # in two pieces
        self.event("data: [DONE]\n\n")
        self.event("")
        return None


class Peer:
    """with Peer(mode="chat only", delay=0.05) as peer: ... peer.url, peer.asked, peer.keys. together: answers none before
    so many are asked for."""

    def __init__(self, mode="", delay=0.0, together=0):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.mode, self.server.delay = mode, delay
        self.server.together = threading.Barrier(together) if together else None
        self.server.asked, self.server.keys = [], []
        self.asked, self.keys = self.server.asked, self.server.keys
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
