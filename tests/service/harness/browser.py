"""Headless Chromium, steered by the DevTools protocol over a pipe: no package, no port."""

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time

from harness.server import clean_environment

PROGRAM = shutil.which("chromium")
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
         "--disable-extensions", "--disable-background-networking", "--disable-component-update",
         "--no-proxy-server", "--remote-debugging-pipe")
TIMEOUT_S = 60


class Browser:
    """One browser with one page."""

    def __init__(self, folder):
        command, self.commands = os.pipe()
        self.replies, reply = os.pipe()
        # Chromium expects its ends as 3 and 4.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (command, reply)]
        with open(folder / "chromium", "wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", 'exec "${@:2}" 3<&"$0" 4>&"$1"', *map(str, ends), PROGRAM, *FLAGS,
                 f"--user-data-dir={folder}/profile"], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env=clean_environment(HOME=str(folder)), pass_fds=ends, start_new_session=True)
        for end in (command, reply, *ends):
            os.close(end)
        self.received, self.last, self.session, self.complaints = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "DOM", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.commands)
        os.close(self.replies)

    def call(self, method, **params):
        """The result of a command. What the page complains of on its console goes to `complaints`."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            text, end, rest = self.received.partition(b"\0")
            if not end:
                ready, _, _ = select.select([self.replies], [], [], deadline - time.monotonic())
                piece = os.read(self.replies, 1 << 20) if ready else b""
                assert piece, f"{method}: no answer from Chromium"
                self.received += piece
                continue
            self.received = rest
            reply = json.loads(text)
            if reply.get("id") == self.last:
                assert "error" not in reply, f"{method}: {reply}"
                return reply["result"]
            if reply.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.complaints.append(json.dumps(reply["params"]))

    def open(self, url):
        assert "errorText" not in self.call("Page.navigate", url=url), url
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, expression):
        """The value of a JavaScript expression, awaited, in the page."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def until(self, condition):
        deadline = time.monotonic() + TIMEOUT_S
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"never came true: {condition}"
            time.sleep(0.02)

    def choose(self, selector, path):
        """Chooses a file in an <input type=file>."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path)])

    def drop(self, selector, path):
        """Drops a file on an element."""
        box = self.run(f"document.querySelector({json.dumps(selector)}).getBoundingClientRect().toJSON()")
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=box["x"] + 9, y=box["y"] + 9, data=data)

    def key(self, name, code, text=""):
        """Presses a key in what has the focus."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code,
                      **({"text": text} if text and kind == "keyDown" else {}))
