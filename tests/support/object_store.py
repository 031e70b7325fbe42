"""An object store of a test: moto's server, and what can happen to it."""
import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import boto3
import botocore.config

from support.ports import free_port

ALLOWED = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]})
NOBODY = "1000000000"  # requests until credentials are verified


class Store:
    """A server of its own with a bucket and one user. `verifies`: it refuses wrong signatures."""

    bucket = "copies"
    url = f"s3://{bucket}/corpus/one"

    def __init__(self, folder, verifies=True):
        self.verifies = verifies
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.log = folder / "moto.log"
        self.start()

    @property
    def env(self):
        none = str(self.log.with_name("none"))
        return {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_ENDPOINT_URL": self.endpoint,
                "AWS_SHARED_CREDENTIALS_FILE": none, "AWS_CONFIG_FILE": none}

    def start(self):
        self.process = subprocess.Popen([pathlib.Path(sys.executable).parent / "moto_server", "-p", str(self.port)],
                                        stdout=subprocess.DEVNULL, stderr=self.log.open("a"))
        end = time.time() + 300
        while not self.answers():
            assert time.time() < end and self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        self.make_bucket()

    def make_bucket(self):
        self.key = self.secret = "any"
        if self.verifies:
            self.make_user()
        self.s3 = self.client("s3", self.key, self.secret)
        self.s3.create_bucket(Bucket=self.bucket)
        if self.verifies:
            self.verify("0")

    def reset(self):
        """As a new server is, which takes seconds to start."""
        self.verify(NOBODY)
        self.call("/moto-api/reset", b"")
        self.make_bucket()

    def make_user(self):
        iam = self.client("iam", "any", "any")
        iam.create_user(UserName="spolia")
        iam.put_user_policy(UserName="spolia", PolicyName="all", PolicyDocument=ALLOWED)
        made = iam.create_access_key(UserName="spolia")["AccessKey"]
        self.key, self.secret = made["AccessKeyId"], made["SecretAccessKey"]

    def verify(self, after):
        """Credentials, after so many requests."""
        self.call("/moto-api/reset-auth", after.encode())

    def call(self, path, body=None):
        r = urllib.request.Request(self.endpoint + path, body, {"Content-Type": "text/plain"})
        return urllib.request.urlopen(r, timeout=300).read()

    def answers(self):
        try:
            self.call("/moto-api/")
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    def client(self, service, key, secret):
        return boto3.client(service, endpoint_url=self.endpoint, region_name="us-east-1", aws_access_key_id=key,
                            aws_secret_access_key=secret, config=botocore.config.Config(retries={"max_attempts": 1}))

    def keys(self, part):
        found = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return [o["Key"] for o in found if f"/{part}/" in o["Key"]]

    def get(self, key):
        return self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()

    def put(self, key, body):
        """In place of an object; it keeps what the object's metadata says."""
        said = self.s3.head_object(Bucket=self.bucket, Key=key)["Metadata"]
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, Metadata=said)

    def delete(self, key):
        self.s3.delete_object(Bucket=self.bucket, Key=key)

    def wipe(self):
        for key in self.keys("copy") + self.keys("index"):
            self.delete(key)

    def copies(self):
        return len(self.keys("copy"))

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            self.signal(signal.SIGCONT)
        self.kill()
