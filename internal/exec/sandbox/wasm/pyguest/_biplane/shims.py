"""Replacements for library functions that can't work here, and the list of preloaded modules."""

import concurrent.futures
import concurrent.futures.thread
import functools
import hashlib
import hmac
import json
import locale
import os
import re
import sys
import tempfile
import threading
import types
import zoneinfo

from . import calls, console, host, values

PRELOAD = """abc argparse array ast base64 binascii bisect calendar cmath collections.abc contextlib contextvars copy csv dataclasses datetime decimal
difflib enum fnmatch fractions functools glob hashlib heapq hmac html html.parser inspect io itertools json linecache logging math numbers operator os pathlib
pickle pprint queue random re secrets shlex shutil statistics string struct tempfile textwrap time traceback types typing unicodedata urllib.parse uuid
warnings weakref xml.etree.ElementTree zlib zoneinfo _strptime encodings.ascii encodings.latin_1 encodings.utf_8_sig encodings.idna stringprep""".split()


class _Submitted(concurrent.futures.Future):
    """The result of a submitted function; for a tool call, its value."""

    def result(self, timeout=None):
        return calls.settled(super().result(timeout))

    def exception(self, timeout=None):
        try:
            self.result(timeout)
        except Exception as e:
            return e
        return None


class Executor(concurrent.futures.Executor):
    """A thread pool without threads: submitted functions run at once."""

    def __init__(self, max_workers=None, thread_name_prefix="", initializer=None, initargs=()):
        if initializer is not None:
            initializer(*initargs)

    def submit(self, fn, /, *args, **kwargs):
        f = _Submitted()
        f.set_running_or_notify_cancel()
        try:
            f.set_result(fn(*args, **kwargs))
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as e:
            f.set_exception(e)
        return f


def pbkdf2_hmac(hash_name, password, salt, iterations, dklen=None):
    """Key derivation by RFC 8018, 5.2, which the library leaves to OpenSSL."""
    inner = hmac.new(bytes(password), digestmod=hash_name)
    if iterations < 1 or dklen is not None and dklen < 1:
        raise ValueError("iterations and dklen must be at least 1")
    out = b""
    for block in range(1, -(-(dklen or inner.digest_size) // inner.digest_size) + 1):
        h = inner.copy()
        h.update(bytes(salt) + block.to_bytes(4))
        u = h.digest()
        t = int.from_bytes(u)
        for _ in range(iterations - 1):
            h = inner.copy()
            h.update(u)
            u = h.digest()
            t ^= int.from_bytes(u)
        out += t.to_bytes(inner.digest_size)
    return out[: dklen or inner.digest_size]


def chmod(path, mode, *, dir_fd=None, follow_symlinks=True):
    """Does nothing if the file exists, since there are no permissions."""
    os.stat(path)


_chdir = os.chdir


def chdir(path):
    """Changes the working directory and normalizes its name."""
    _chdir(path)
    _chdir(os.path.normpath(os.getcwd()))


_loads = json.loads


@functools.wraps(_loads)
def loads(s, **options):
    if isinstance(s, calls.ToolCall):
        s = calls.settle(s)
    if isinstance(s, (values.Object, values.List)):
        console.note("json.loads received a tool's result, which is already decoded, and returned it unchanged: omit json.loads")
        return s
    return _loads(s, **options)


_setlocale = locale.setlocale


def setlocale(category, name=None):
    """Returns or sets the locale; only one is available."""
    if name not in (None, "", "C", "POSIX", "C.UTF-8"):
        raise locale.Error("unsupported locale %r: the sandbox has only \"C\"; format numbers and dates with f-strings and strftime" % (name,))
    return _setlocale(category, None if name is None else "C")


def _pager():
    """_pyrepl.pager, which pydoc imports: without a terminal, pages are printed."""
    m = types.ModuleType("_pyrepl.pager")

    def plain(text):
        return re.sub(".\b", "", text)

    def plain_pager(text, title=""):
        print(plain(text))

    m.plain, m.plain_pager, m.get_pager, m.escape_less = plain, plain_pager, lambda: plain_pager, lambda s: s
    m.tty_pager = m.pipe_pager = m.tempfile_pager = lambda text, *_: plain_pager(text)
    package = types.ModuleType("_pyrepl")
    package.__path__, package.pager = [], m
    sys.modules["_pyrepl"], sys.modules["_pyrepl.pager"] = package, m


def _no_thread(self):
    raise RuntimeError("the sandbox has no threads: write async functions, and await asyncio.gather(...) of them")


def install():
    Executor.__name__ = Executor.__qualname__ = "ThreadPoolExecutor"
    # Tool calls are made on the main thread, so functions submitted to a pool run there.
    concurrent.futures.ThreadPoolExecutor = concurrent.futures.thread.ThreadPoolExecutor = Executor
    json.loads = loads
    if not host.process:
        _install_embedded()


def _install_embedded():
    """Replaces what the embedded engine lacks."""
    for name in PRELOAD:
        __import__(name)
    threading.Thread.start = _no_thread
    hashlib.pbkdf2_hmac = pbkdf2_hmac
    os.chmod = chmod
    locale.setlocale = setlocale
    _pager()
    os.chdir = chdir
    zoneinfo.reset_tzpath(to=["/lib/timezones"])
    os.environ["HOME"] = "/workspace"
    os.environ["TZ"] = "UTC"
    tempfile.tempdir = "/tmp"
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # files without a name are not supported
