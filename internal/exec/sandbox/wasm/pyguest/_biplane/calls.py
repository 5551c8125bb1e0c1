"""Calls of tools: each is a future that the host settles, and that does as its value does where a program forgot to await it."""

import asyncio
import operator

from . import errors, host, values
from .loop import loop
from .private import private

asyncio, operator = private(asyncio), private(operator)

_next_id = 1
_pending = {}  # by id
_made = []  # in this run


def waiting():
    """How many calls the host has not answered."""
    return len(_pending)


loop.waiting = waiting


def begin():
    """At the start of a run: forgets what earlier ones made, but not what is still to be answered."""
    _made.clear()
    _quoted.clear()
    errors.forget_places()


def reset():
    """Forgets all calls."""
    begin()
    _pending.clear()


def restart():
    """Numbers calls from 1 again; while the image is made."""
    global _next_id
    _next_id = 1


MAX_QUOTED = 256
_quoted = {}  # paths and stacks that calls had, as JSON


def _quote(text):
    q = _quoted.get(text)
    if q is None:
        if len(_quoted) >= MAX_QUOTED:
            _quoted.clear()
        q = _quoted[text] = host.encode(text)
    return q


def call(path, args):
    """Calls a tool; args are a dict or None."""
    global _next_id
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
    """Takes the host's answer; one to nothing is ignored."""
    c = _pending.pop(a.get("id"), None)
    if c is None or c.cancelled():
        return
    e = a.get("error")
    if e is not None:
        asyncio.Future.set_exception(c, errors.tool_error(e))
        c._log_traceback = False  # forgotten() tells of it
    else:
        v = values.result(a.get("value"))
        asyncio.Future.set_result(c, values.Found(v) if type(v) is values.List and c._path == "biplane.search" else v)


def forgotten():
    """The calls of this run that nobody awaited, or that are not answered."""
    return [c for c in _made if not (c._seen and c.done())]


def settle(c):
    """The value of c; of a call that is not answered yet, stands still until it is."""
    c._seen = True
    while not c.done():
        loop.deliver(host.next_line())
    return c.result()


def seen(calls):
    """The calls, each of which is going to be awaited."""
    for c in calls:
        _set(c, "_seen", True)
    return calls


def settled(x):
    """x, or the value of x where it is a call."""
    return settle(x) if isinstance(x, ToolCall) else x


_set = object.__setattr__  # at once: that of a call looks at the name


class ToolCall(asyncio.Future):
    """A call under way. Await it; or use it as what it gives."""

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
        if not self.done():  # a future would say that it is not ready
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
