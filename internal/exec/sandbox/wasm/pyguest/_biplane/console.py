"""Console output of programs."""

import io
import logging
import sys
import warnings

from . import host

MAX_LINE = 16 * 1024  # characters per message


def line(level, text):
    """Writes one message. The host limits the number of messages."""
    if len(text) > MAX_LINE:
        text = "%s… (%d more characters)" % (text[:MAX_LINE], len(text) - MAX_LINE)
    host.send("console", {"level": level, "text": text})


_noted = set()  # in this run


def note(text):
    """Writes a note about the program to the agent, once per run."""
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
    """Standard output or standard error. Each line becomes a message."""

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
        """Writes the incomplete last line."""
        if self._parts:
            self._out(None)


class _Input(io.StringIO):
    def readline(self, *a):
        raise EOFError("the program has no standard input")

    read = readlines = __next__ = readline


def _log(handler, record):
    """Writes a logging record at its own level."""
    level = "error" if record.levelno >= 40 else "warn" if record.levelno >= 30 else "info" if record.levelno >= 20 else "debug"
    try:
        line(level, handler.format(record))
    except RecursionError:
        raise
    except Exception:
        handler.handleError(record)


class _Handler(logging.Handler):
    """The stream of the root logger and of loggers without handlers."""

    def emit(self, record):
        _log(self, record)


_to_stream = logging.StreamHandler.emit


def _emit(handler, record):
    """Replaces logging.StreamHandler.emit: console records keep their level instead of all becoming
    errors on standard error."""
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
    """Discards buffered output at the start of a run."""
    # A program of this session replaced them.
    if sys.stdout is not stdout or sys.stderr is not stderr:
        sys.stdout, sys.stderr = stdout, stderr
    stdout.reset()
    stderr.reset()
    _noted.clear()


def flush():
    for s in (stdout, stderr):
        s.end()


end = flush
