"""The connection of an ordinary interpreter to the driver of its sandbox. Package _biplane uses it
in place of the module of this name in the embedded engine.

Both sides send frames: one byte for the kind, the text, and a newline. The driver sends L, a line of
the host; A, the answer to a question, or N if there is none; E when the host's lines have ended; and M to ask
what the interpreter has. The agent sends R when it is ready; L, a line for the host; Q, a question;
I when it has handled everything that came before an E; M, its version and modules as JSON; and W, why
modules could not be imported. The driver sends W with a list of modules to import before any program runs. The agent of
shells (package shell) also sends K to ask whether the system killed a process for lack of memory: K1 or K0."""

import base64
import collections
import contextlib
import importlib
import importlib.util
import io
import json
import os
import pkgutil
import select
import sys
import threading

import files

process = True
libraries = ("/usr/", "/lib/", "/lib64/", "/etc/", "/biplane/")

FD = 3
READ = 1 << 20  # bytes

_sending = threading.Lock()
_received = bytearray()
_scanned = 0  # bytes of _received without a newline
_set_aside = collections.deque()  # frames that arrived before an answer


def _send(kind, text=""):
    data = memoryview(kind + text.encode("utf-8", "replace") + b"\n")
    with _sending:
        while data:
            data = data[os.write(FD, data) :]


def _frame():
    """Waits for the driver's next frame, and returns its kind and text. Ends the process if the
    driver has closed the connection."""
    global _scanned
    while True:
        end = _received.find(b"\n", _scanned)
        if end >= 0:
            kind, text = _received[:1], _received[1:end].decode()
            del _received[: end + 1]
            _scanned = 0
            return bytes(kind), text
        _scanned = len(_received)
        data = os.read(FD, READ)
        if not data:
            os._exit(0)
        _received.extend(data)


def _take():
    return _set_aside.popleft() if _set_aside else _frame()


def _more():
    """Reports whether another frame has arrived."""
    return bool(_set_aside) or b"\n" in _received or bool(select.select([FD], [], [], 0)[0])


def write(line):
    """Sends a line to the host."""
    if line.startswith(('{"done"', '{"fail"')):
        _output.drain()
    _send(b"L", line)


def ask(question):
    """Asks the host a question, and returns the answer, or None if there is none."""
    _send(b"Q", question)
    while True:
        kind, text = _frame()
        if kind == b"A":
            return text
        if kind == b"N":
            return None
        _set_aside.append((kind, text))


def next():
    """Waits for the host's next line, and returns it, or None if there is none."""
    kind, text = _take()
    if kind == b"L":
        return text
    _set_aside.appendleft((kind, text))
    return None


def clock(ms):
    """Does nothing: the interpreter has its own clock."""


def seed(data):
    """Does nothing: the interpreter has its own source of randomness."""


def begin():
    files.load(ask)


def end():
    files.store(ask)


class _Output:
    """What the program's subprocesses and libraries write to standard output and standard error.
    Each line becomes a console message."""

    MOST = 16 * 1024  # bytes of a line

    def __init__(self):
        self.reading = threading.Lock()
        self.rest = b""
        self.pipe = None

    def install(self):
        self.pipe, end = os.pipe()
        os.set_blocking(self.pipe, False)
        os.dup2(end, 1)
        os.dup2(end, 2)
        os.close(end)
        threading.Thread(target=self.run, name="output", daemon=True).start()

    def run(self):
        while True:
            select.select([self.pipe], [], [])
            self.drain(False)

    def drain(self, all=True):
        """Sends what has been written; with all, also an incomplete last line."""
        if self.pipe is None:
            return
        with self.reading:
            while True:
                try:
                    data = os.read(self.pipe, READ)
                except BlockingIOError:
                    break
                *lines, self.rest = (self.rest + data).split(b"\n")
                for line in lines:
                    self.send(line)
                while len(self.rest) > self.MOST:
                    self.send(self.rest[: self.MOST])
                    self.rest = self.rest[self.MOST :]
            if all and self.rest:
                self.send(self.rest)
                self.rest = b""

    def send(self, line):
        from _biplane import console

        console.line("log", line.decode("utf-8", "replace"))


_output = _Output()


def _in_child():
    """Separates a forked process from the driver: only one process may talk to it."""
    global _sending
    import sys

    os.close(FD)
    _sending = threading.Lock()
    sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)


# Modules of the standard library that the embedded engine lacks, and that need no network.
_STANDARD = "bz2 cProfile ctypes dbm lzma mailbox mmap multiprocessing profile pstats pwd grp resource sqlite3 doctest bdb pdb compileall zipapp".split()


def _modules():
    """Returns the modules that programs can import here and not in the embedded engine."""
    names = {m.name for m in pkgutil.iter_modules() if not m.name.startswith("_")}
    found = names - sys.stdlib_module_names - {"files", "boot", "_biplane"}
    return sorted(found | {name for name in _STANDARD if importlib.util.find_spec(name)})


def _bytecode():
    """Returns the compiled modules of the agent: path below /biplane to base64. The driver copies them
    into later sandboxes, so that they needn't compile them."""
    from importlib._bootstrap_external import _code_to_hash_pyc

    out = {}
    for m in list(sys.modules.values()):
        path = getattr(m, "__file__", None) or ""
        if path.startswith("/biplane/") and m.__name__ != "__main__":
            with open(path, "rb") as f:
                source = f.read()
            code = compile(source, path, "exec", dont_inherit=True, optimize=0)
            data = _code_to_hash_pyc(code, importlib.util.source_hash(source), False)
            out[importlib.util.cache_from_source(path)[len("/biplane/") :]] = base64.b64encode(data).decode()
    return out


def _import_ahead(names):
    """Imports modules before a program needs them. Returns what failed. Nothing that they print is
    kept."""
    failed = {}
    null = io.StringIO()
    with _output.reading, contextlib.redirect_stdout(null), contextlib.redirect_stderr(null):
        for name in names:
            try:
                importlib.import_module(name)
            except BaseException as e:
                failed[name] = "%s: %s" % (type(e).__name__, e)
        try:
            while _output.pipe is not None and os.read(_output.pipe, READ):
                pass
        except BlockingIOError:
            pass
    return failed


def serve():
    """Runs programs until the driver closes the connection."""
    from _biplane.guest import deliver, idle

    os.set_inheritable(FD, False)
    os.register_at_fork(after_in_child=_in_child)
    _output.install()
    _send(b"R")
    while True:
        kind, text = _take()
        if kind == b"L":
            deliver(text)
            if not _more():
                idle()
        elif kind == b"E":
            idle()
            _send(b"I")
        elif kind == b"W":
            _send(b"W", json.dumps(_import_ahead(json.loads(text))))
        elif kind == b"M":
            _send(b"M", json.dumps({"version": sys.version.split()[0], "modules": _modules(), "bytecode": _bytecode()}))
