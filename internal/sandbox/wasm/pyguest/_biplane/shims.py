"""What the library can't do here, done as far as it can be; and the modules that are loaded beforehand."""

import concurrent.futures
import concurrent.futures.thread
import os
import tempfile
import threading
import zoneinfo

PRELOAD = """abc argparse array ast base64 binascii bisect calendar cmath collections.abc contextlib contextvars copy csv dataclasses datetime decimal
difflib enum fnmatch fractions functools glob hashlib heapq hmac html html.parser inspect io itertools json linecache logging math numbers operator os pathlib
pickle pprint queue random re secrets shlex shutil statistics string struct tempfile textwrap time traceback types typing unicodedata urllib.parse uuid
warnings weakref xml.etree.ElementTree zlib zoneinfo _strptime encodings.ascii encodings.latin_1 encodings.utf_8_sig encodings.idna stringprep""".split()


class Executor(concurrent.futures.Executor):
    """A pool of threads, where there are none: what is submitted runs at once."""

    def __init__(self, max_workers=None, thread_name_prefix="", initializer=None, initargs=()):
        if initializer is not None:
            initializer(*initargs)

    def submit(self, fn, /, *args, **kwargs):
        f = concurrent.futures.Future()
        f.set_running_or_notify_cancel()
        try:
            f.set_result(fn(*args, **kwargs))
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as e:
            f.set_exception(e)
        return f


def _no_thread(self):
    raise RuntimeError("the sandbox has no threads: write async functions, and await asyncio.gather(...) of them")


def install():
    for name in PRELOAD:
        __import__(name)
    Executor.__name__ = Executor.__qualname__ = "ThreadPoolExecutor"
    concurrent.futures.ThreadPoolExecutor = concurrent.futures.thread.ThreadPoolExecutor = Executor
    threading.Thread.start = _no_thread
    zoneinfo.reset_tzpath(to=["/lib/timezones"])
    os.environ["HOME"] = "/workspace"
    os.environ["TZ"] = "UTC"
    tempfile.tempdir = "/tmp"
