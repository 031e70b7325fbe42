"""A small Hugging Face hub for tests: lists files, redirects to a second server that has the bytes, and misbehaves."""
import hashlib
import http.server
import json
import re
import threading
import urllib.parse


def git_id(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    """repos: {"ORG/REPO": {path: bytes}}. What a test changes:

    token     the hub wants it
    cut       bytes after which a download ends, once for each number in the list
    statuses  of the next answers with bytes; None: the true one
    ranges    False: every download begins at the first byte
    lie       {path: bytes} sent in place of what is listed
    commit    of every repository
    meanwhile called once, before the next answer with bytes
    refusal   the status of every list and redirection
    listed    {path: fields} put into its entry of a list
    answer    bytes sent in place of every list
    """
    def __init__(self, repos):
        self.repos, self.token, self.cut, self.statuses, self.ranges, self.lie = repos, None, [], [], True, {}
        self.commit, self.meanwhile = "c0ffee" + 34 * "0", None
        self.refusal, self.listed, self.answer = None, {}, None
        self.seen = []  # (server, path, authorization, range)
        self.bytes = self.start("bytes")
        self.api = self.start("api")
        self.url = f"http://127.0.0.1:{self.api.server_port}"

    def start(self, name):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                hub.seen.append((name, self.path, self.headers.get("Authorization"), self.headers.get("Range")))
                getattr(hub, name + "_get")(self)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def stop(self):
        for server in (self.api, self.bytes):
            server.shutdown()
            server.server_close()

    @staticmethod
    def send(h, status, body, **headers):
        h.send_response(status)
        for key, value in headers.items():
            h.send_header(key.replace("_", "-"), value)
        h.send_header("Content-Length", str(len(body)))
        h.end_headers()
        h.wfile.write(body)

    def api_get(self, h):
        if self.token and h.headers.get("Authorization") != f"Bearer {self.token}":
            return self.send(h, 401, b'{"error":"Access to this model is restricted"}')
        if self.refusal:
            return self.send(h, self.refusal, b"no")
        listing = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/([^?]+)\?blobs=true", h.path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", h.path)
        repo = self.repos.get((listing or file or {1: None})[1])
        if repo is None or (listing and listing[2] not in ("main", self.commit)):
            return self.send(h, 404, b'{"error":"Repository not found"}')
        if file:
            return self.send(h, 302, b"", Location=f"http://localhost:{self.bytes.server_port}/{file[1]}/{file[3]}")
        siblings = []
        for path, data in repo.items():
            entry = {"rfilename": path, "size": len(data), "blobId": git_id(data)}
            if path.endswith((".gguf", ".safetensors")):
                entry["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 135}
            siblings.append(entry | self.listed.get(path, {}))
        self.send(h, 200, self.answer or json.dumps({"sha": self.commit, "siblings": siblings}).encode())

    def bytes_get(self, h):
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            meanwhile()
        passing = self.statuses.pop(0) if self.statuses else None
        if passing:
            return self.send(h, passing, b"try later")
        org, repo, path = urllib.parse.unquote(h.path[1:]).split("/", 2)
        data, status, begin = self.lie.get(path, self.repos[f"{org}/{repo}"][path]), 200, 0
        wanted = re.fullmatch(r"bytes=(\d+)-", h.headers.get("Range", ""))
        if wanted and self.ranges:
            begin, status = int(wanted[1]), 206
        body = data[begin:]
        h.send_response(status)
        h.send_header("Content-Length", str(len(body)))
        h.end_headers()
        if self.cut:
            h.wfile.write(body[:self.cut.pop(0)])
            h.close_connection = True
        else:
            h.wfile.write(body)
