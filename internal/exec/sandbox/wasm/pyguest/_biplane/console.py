"""What programs print: lines of the console."""

import io
import logging
import sys
import warnings

from . import host

MAX_LINE = 16 * 1024  # characters of one message


def line(level, text):
    """Writes one message. How many there may be is the host's to say."""
    if len(text) > MAX_LINE:
        text = "%s… (%d more characters)" % (text[:MAX_LINE], len(text) - MAX_LINE)
    host.send("console", {"level": level, "text": text})


_noted = set()  # in this run


def note(text):
    """Tells the agent something about the program, once."""
    if text not in _noted:
        _noted.add(text)
        line("note", text)


class _Bytes(io.RawIOBase):
    def __init__(self, stream):
        self._stream = stream

    def writable(self):
        return True

    def write(self, b):
        self._stream.write(bytes(b).decode("utf-8", "replace"))
        return len(b)


class Stream(io.TextIOBase):
    """Standard output or error. A message is what was written up to the end of a line."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, name, level):
        self.name = name
        self._level = level
        self._parts = []
        self._size = 0
        self.buffer = _Bytes(self)

    def writable(self):
        return True

    def fileno(self):
        raise io.UnsupportedOperation("fileno: the console is not a file")

    def write(self, s):
        if not isinstance(s, str):
            raise TypeError("write() argument must be str, not " + type(s).__name__)
        if s:
            self._parts.append(s)
            self._size += len(s)
            if s[-1] == "\n":
                self._out(-1)
            elif self._size > MAX_LINE:
                self._out(None)
        return len(s)

    def _out(self, end):
        text = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        line(self._level, text[:end])

    def reset(self):
        self._parts.clear()
        self._size = 0

    def end(self):
        """Writes what is left of a line."""
        if self._parts:
            self._out(None)


class _Input(io.StringIO):
    def readline(self, *a):
        raise EOFError("the program has no standard input")

    read = readlines = __next__ = readline


def _log(handler, record):
    """Writes a record of the logging module at its own level."""
    level = "error" if record.levelno >= 40 else "warn" if record.levelno >= 30 else "info" if record.levelno >= 20 else "debug"
    try:
        line(level, handler.format(record))
    except RecursionError:
        raise
    except Exception:
        handler.handleError(record)


class _Handler(logging.Handler):
    """Where the root logger and those without handlers write."""

    def emit(self, record):
        _log(self, record)


_to_stream = logging.StreamHandler.emit


def _emit(handler, record):
    """logging.StreamHandler.emit, of which what goes to the console keeps its level: on standard error all would be errors."""
    if handler.stream is stderr or handler.stream is stdout:
        _log(handler, record)
    else:
        _to_stream(handler, record)


stdout = Stream("<stdout>", "log")
stderr = Stream("<stderr>", "error")


def _warn(message, category, filename, lineno, file=None, text=None):
    line("warn", "%s: %s" % (category.__name__, message))


def install():
    sys.stdout = sys.__stdout__ = stdout
    sys.stderr = sys.__stderr__ = stderr
    sys.stdin = sys.__stdin__ = _Input()
    logging.StreamHandler.emit = _emit
    logging.lastResort = _Handler(logging.WARNING)
    warnings.showwarning = _warn


def begin():
    """Forgets what was written; at the start of a run."""
    if sys.stdout is not stdout or sys.stderr is not stderr:  # as a program of this session left them
        sys.stdout, sys.stderr = stdout, stderr
    stdout.reset()
    stderr.reset()
    _noted.clear()


def flush():
    for s in (stdout, stderr):
        s.end()


end = flush
