"""Tool calls. Each is a future that the host resolves. Where a program forgot to await one, it
behaves like its value."""

import asyncio
import operator
import threading

from . import errors, host, values
from .loop import loop
from .private import private

asyncio, operator = private(asyncio), private(operator)

_main_thread = threading.get_ident()
_next_id = 1
_pending = {}  # by id
_made = []  # in this run


def waiting():
    """Returns the number of calls that the host has not answered."""
    return len(_pending)


loop.waiting = waiting


def begin():
    """Discards the answered calls of earlier programs at the start of a run; pending calls remain."""
    _made.clear()
    _quoted.clear()
    errors.forget_places()


def reset():
    """Discards all calls."""
    begin()
    _pending.clear()


def restart():
    """Resets the call ids to 1 while the image is created."""
    global _next_id
    _next_id = 1


MAX_QUOTED = 256
_quoted = {}  # paths and stacks of calls, encoded as JSON


def _quote(text):
    q = _quoted.get(text)
    if q is None:
        if len(_quoted) >= MAX_QUOTED:
            _quoted.clear()
        q = _quoted[text] = host.encode(text)
    return q


def call(path, args):
    """Calls a tool; args is a dict or None."""
    global _next_id
    if threading.get_ident() != _main_thread:
        raise RuntimeError("tools can be called on the main thread only: await asyncio.gather(...) of the calls there")
    if not isinstance(path, str) or not path:
        raise TypeError('call_tool takes the path of a tool, for example "github.list_issues"')
    text = None if not args else values.arguments(args)
    c = ToolCall(path, _next_id)
    _next_id += 1
    _pending[c._id] = c
    _made.append(c)
    stack = errors.caller_stack()
    host.write(
        '{"call":{"id":%d,"path":%s%s%s}}'
        % (c._id, _quote(path), "" if text is None else ',"args":' + text, "" if not stack else ',"stack":' + _quote(stack))
    )
    return c


def answer(a):
    """Delivers the host's answer; unknown ids are ignored."""
    c = _pending.pop(a.get("id"), None)
    if c is None or c.cancelled():
        return
    e = a.get("error")
    if e is not None:
        asyncio.Future.set_exception(c, errors.tool_error(e))
        c._log_traceback = False  # forgotten() reports it
    else:
        v = values.result(a.get("value"))
        asyncio.Future.set_result(c, values.Found(v) if type(v) is values.List and c._path == "biplane.search" else v)


def forgotten():
    """Returns the calls of this run that were not awaited or not answered."""
    return [c for c in _made if not (c._seen and c.done())]


def settle(c):
    """Returns the value of c; blocks until the call is answered."""
    c._seen = True
    while not c.done():
        loop.deliver(host.next_line())
    return c.result()


def seen(calls):
    """Marks the calls as awaited and returns them."""
    for c in calls:
        _set(c, "_seen", True)
    return calls


def settled(x):
    """Returns the value of a call, or any other x unchanged."""
    return settle(x) if isinstance(x, ToolCall) else x


_set = object.__setattr__  # faster: a call's own __setattr__ inspects the name


class ToolCall(asyncio.Future):
    """A pending call. Await it, or use it like its value."""

    def __init__(self, path, id):
        super().__init__(loop=loop)
        _set(self, "_path", path)
        _set(self, "_id", id)
        _set(self, "_seen", False)

    def __await__(self):
        _set(self, "_seen", True)
        return (yield from super().__await__())

    def add_done_callback(self, fn, *, context=None):
        _set(self, "_seen", True)
        super().add_done_callback(fn, context=context)

    def result(self):
        _set(self, "_seen", True)
        if not self.done():  # a plain future would raise InvalidStateError
            return settle(self)
        return super().result()

    def __getattr__(self, name):
        if name[:2] == "__":
            raise AttributeError(name)
        return getattr(settle(self), name)

    def __setattr__(self, name, value):
        if name[:1] == "_":
            object.__setattr__(self, name, value)
        else:
            setattr(settle(self), name, value)

    def __eq__(self, other):
        return self is other or (settle(self) == settled(other))

    def __hash__(self):
        return id(self) >> 4

    def __repr__(self):
        return repr(settle(self))

    def __str__(self):
        return str(settle(self))

    def __format__(self, spec):
        return format(settle(self), spec)

    def __bool__(self):
        return bool(settle(self))

    def __iter__(self):
        return iter(settle(self))

    def __dir__(self):
        return dir(settle(self))


def _delegate(name, f):
    def method(self, *args):
        return f(settle(self), *[settled(a) for a in args])

    method.__name__ = name
    setattr(ToolCall, name, method)


def _reflect(name, f):
    def method(self, other):
        return f(other, settle(self))

    method.__name__ = name
    setattr(ToolCall, name, method)


for _n in "lt le gt ge getitem setitem delitem contains index neg pos abs invert".split():
    _delegate("__%s__" % _n, getattr(operator, "__%s__" % _n))
for _n in "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul".split():
    _f = getattr(operator, "__%s__" % _n)
    _delegate("__%s__" % _n, _f)
    _reflect("__r%s__" % _n, _f)
for _n, _f in {"len": len, "int": int, "float": float, "complex": complex, "reversed": reversed, "round": round, "bytes": bytes}.items():
    _delegate("__%s__" % _n, _f)
