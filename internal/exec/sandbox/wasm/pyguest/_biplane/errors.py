"""ToolError, and the conversion of errors to the protocol's form."""

import itertools
import linecache
import sys
import traceback
import types

from . import host
from .private import private

itertools, linecache, traceback, types = private(itertools), private(linecache), private(traceback), private(types)

MAX_TEXT = 64 * 1024
MAX_FRAMES = 24
MAX_PLACES = 256


class ToolError(Exception):
    """A failed tool call. kind is one of "invalid", "not_found", "conflict", "denied", "limit",
    "timeout", "unavailable" and "internal"."""

    def __init__(self, message="", kind="internal", upstream="", tool="", data=None):
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.upstream = upstream
        self.tool = tool
        self.data = data
        self.status = _field(data, "status", int)
        self.retryable = _field(data, "retryable", bool)
        self.retry_after = _field(data, "retry_after", (int, float))


def _field(data, name, kind):
    """Returns a field of an error's data, or None if it isn't of a kind."""
    v = data.get(name) if isinstance(data, dict) else None
    return v if isinstance(v, kind) and (kind is bool or not isinstance(v, bool)) else None


ToolError.__module__ = "biplane"


class StalledError(RuntimeError):
    """The program waits for something that can never happen."""


def own(filename):
    """Reports whether code of that file belongs to the program or one of its own modules."""
    return not filename.startswith((*host.libraries, "<frozen", "<driver"))


def _frame(code, lineno, lasti):
    """Formats a location in the program: File "program.py", line 3, column 5, in f."""
    column = ""
    if lineno and lasti >= 0:
        line, _, at, _ = next(itertools.islice(code.co_positions(), lasti // 2, None), (None, None, None, None))
        if line == lineno and at is not None:  # the column is in bytes
            text = linecache.getline(code.co_filename, line).encode()
            column = ", column %d" % (len(text[:at].decode("utf-8", "replace")) + 1 if text else at + 1)
    return 'File "%s", line %d%s, in %s' % (code.co_filename, lineno or 0, column, code.co_name)


def stack_of(tb):
    """Returns the program's frames of a traceback, innermost last."""
    frames = []
    while tb is not None:
        code = tb.tb_frame.f_code
        if own(code.co_filename):
            frames.append(_frame(code, tb.tb_lineno, tb.tb_lasti))
        tb = tb.tb_next
    return "\n".join(_some(frames))


def _some(frames):
    if len(frames) > MAX_FRAMES:
        return frames[: MAX_FRAMES // 2] + ["... %d more" % (len(frames) - MAX_FRAMES)] + frames[-MAX_FRAMES // 2 :]
    return frames


# Formatted locations of callers by code id and instruction; the value holds the code, so that its
# id stays valid.
_places = {}


def forget_places():
    """Clears the cached locations at the start of a run."""
    _places.clear()


def caller_stack():
    """Returns the program's frames of the current call stack."""
    frames = []
    f = sys._getframe(1)
    while f is not None and len(frames) < MAX_FRAMES:
        code = f.f_code
        at = (id(code), f.f_lasti)
        place = _places.get(at)
        if place is None:
            if len(_places) >= MAX_PLACES:
                _places.clear()
            place = _places[at] = (code, _frame(code, f.f_lineno, f.f_lasti) if own(code.co_filename) else None)
        if place[1] is not None:
            frames.append(place[1])
        f = f.f_back
    frames.reverse()
    return "\n".join(frames)


def _cut(s):
    return s if len(s) <= MAX_TEXT else s[:MAX_TEXT] + "…"


def _only(e):
    """Returns the name and message of an error, with the suggestion that a traceback would end
    with."""
    name = type(e).__name__
    try:
        text = str(e)
    except BaseException:
        text = "(the message can't be shown)"
    if isinstance(e, (NameError, AttributeError, ImportError)):
        try:
            last = list(traceback.TracebackException(type(e), e, e.__traceback__, compact=True).format_exception_only())[-1].rstrip("\n")
            prefix = type(e).__qualname__ + ": "
            at = last.find(prefix)
            if at >= 0 and len(last) > at + len(prefix) + len(text):
                text = last[at + len(prefix) :]
        except BaseException:
            pass
    elif isinstance(e, KeyError) and len(e.args) == 1:
        text = "no key %s" % text
    return name, text


def brief(e):
    """Formats an error as one line."""
    name, text = _only(e)
    return _cut("%s: %s" % (name, text) if text else name)


def _notes(e):
    more = [n for n in getattr(e, "__notes__", ()) if isinstance(n, str)]
    if isinstance(e, BaseExceptionGroup):
        more += ["- " + brief(x) for x in e.exceptions[:10]]
    cause = e.__cause__
    for _ in range(5):
        if cause is None:
            break
        more.append("caused by: " + brief(cause))
        cause = cause.__cause__
    return more


def of_parser(e):
    """Reports whether a MemoryError means that the parser's stack is full."""
    return isinstance(e, MemoryError) and str(e).startswith("Parser stack")


def describe(e, program):
    """Converts an error to the protocol's GuestError; program is the program's name."""
    name, text = _only(e)
    stack = stack_of(e.__traceback__)
    # A StopIteration that a coroutine replaced with another error.
    if not stack and e.__cause__ is not None:
        stack = stack_of(e.__cause__.__traceback__)
    if isinstance(e, SyntaxError) and e.lineno is not None and own(e.filename or ""):
        place = 'File "%s", line %d' % (e.filename, e.lineno) + (", column %d" % e.offset if e.offset else "")
        stack = stack + "\n" + place if stack else place
        module = "" if e.filename == program else "in .%s, " % e.filename
        text = "%s (%sline %d%s)" % (e.msg, module, e.lineno, ", column %d" % e.offset if e.offset else "")
    if isinstance(e, RecursionError):
        text += ": recurse less deeply, or use a loop"
    if of_parser(e):
        text = "the text nests too deeply for the parser: nest brackets less deeply"
    elif isinstance(e, MemoryError):
        text = "the program reached its memory limit: hold less at a time"
    out = {"name": name, "message": _cut("\n".join([text or name] + _notes(e))), "stack": _cut(stack)}
    if isinstance(e, ToolError):
        for k in ("kind", "upstream", "tool"):
            v = getattr(e, k, None)
            if isinstance(v, str) and v:
                out[k] = v
    elif isinstance(e, StalledError):
        out["kind"] = "stalled"
        out["name"] = "Error"
    return out


def tool_error(error):
    """Creates the ToolError of an answer."""
    return ToolError(error.get("message", ""), error.get("kind") or "internal", error.get("upstream", ""), error.get("tool", ""), error.get("data"))


def forget(e):
    """Releases what an error refers to: its frames and their variables."""
    seen = set()
    while e is not None and id(e) not in seen:
        seen.add(id(e))
        e.__traceback__ = None
        e = e.__cause__ or e.__context__


# Modules that programs may import.
module = types.ModuleType("biplane", "What a program has beside Python: tools, and results of theirs.")
module.ToolError = ToolError
