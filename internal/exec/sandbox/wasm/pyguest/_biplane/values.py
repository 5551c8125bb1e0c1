"""JSON encoding and decoding of values."""

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import inspect
import itertools
import json
import math
import pathlib
import re
import types
import uuid

from .private import private

base64, dataclasses, inspect, itertools, json, math, types = map(private, (base64, dataclasses, inspect, itertools, json, math, types))

MAX_DEPTH = 200
MAX_ITEMS = 1_000_000  # items of a generator or other lazy iterable
MAX_ATTRIBUTES = 200


class Object(dict):
    """A JSON object: a dict whose keys are also attributes, unless a method of dict has the same
    name."""

    __slots__ = ()

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            if name[:2] == "__":
                raise AttributeError(name) from None
            keys = ", ".join(map(str, itertools.islice(self, 20)))
            raise AttributeError("the object has no key %r; it has: %s" % (name, keys or "none")) from None

    def __setattr__(self, name, value):
        self[name] = value

    def __delattr__(self, name):
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __dir__(self):
        return [*super().__dir__(), *(k for k in self if isinstance(k, str))]

    def __await__(self):  # awaiting a value again is harmless
        return self
        yield

    def __reduce__(self):
        return (Object, (dict(self),))

    def __copy__(self):
        return Object(self)


class List(list):
    """A JSON array returned by a tool."""

    __slots__ = ()

    def __await__(self):
        return self
        yield

    def __reduce__(self):
        return (List, (list(self),))


class Found(List):
    """The result of a search: a list of objects with a readable text form."""

    __slots__ = ()

    def __str__(self):
        out = []
        for t in self:
            text = t.get("path", "") + (" - " + t["description"] if t.get("description") else "")
            for part in (t.get("call"), t.get("example")):
                text += "\n" + part if part else ""
            out.append((t["note"] + "\n\n" if t.get("note") else "") + text)
        return "\n\n".join(out)

    def __reduce__(self):
        return (Found, (list(self),))


# The types that a call can return.
GIVEN = frozenset((type(None), bool, int, float, str, list, dict, Object, List, Found))

decode = json.JSONDecoder(object_hook=Object).decode


def result(value):
    """Converts a decoded result to the types that a call returns."""
    return List(value) if type(value) is list else value


_encoder, _quote = json.encoder.c_make_encoder, json.encoder.encode_basestring_ascii


def _argument(o):
    from . import calls

    if isinstance(o, calls.ToolCall):
        return calls.settle(o)
    return _convert(o, _shallow)


def arguments(args):
    """Encodes the arguments of a call as ASCII JSON text without NaN."""
    try:
        return "".join(_encoder({}, _argument, _quote, None, ":", ",", False, False, False)(args, 0))
    except (ValueError, TypeError, RecursionError) as e:
        if isinstance(e, ValueError) and "Circular" not in str(e):
            raise ValueError("an argument can't hold NaN or an infinity") from None
        if isinstance(e, TypeError) and "keys must be" in str(e):
            return _dumps(_tame(args, 0, set()))
        raise


def _dumps(v):
    return json.dumps(v, ensure_ascii=True, allow_nan=False, separators=(",", ":"), check_circular=False)


def dumps(value, futures):
    """Encodes any value as JSON text. futures holds the results of the awaitables in it, by id."""
    if not _unusual(value):
        try:
            return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=lambda o: _convert(o, _shallow, futures))
        except (ValueError, TypeError, RecursionError, AttributeError):
            pass
    return _dumps(_tame(value, 0, set(), futures))


def _unusual(value, budget=2000):
    """Reports whether there is a named tuple near the top, which json would encode as an array."""
    todo = [value]
    while todo and budget > 0:
        v = todo.pop()
        budget -= 1
        if isinstance(v, tuple) and hasattr(v, "_fields"):
            return True
        if isinstance(v, dict):
            todo.extend(itertools.islice(v.values(), budget))
        elif isinstance(v, (list, tuple)):
            todo.extend(itertools.islice(v, budget))
    return False


def _shallow(v):
    return v


def _scalar(v):
    """Converts values that have an obvious text or number; otherwise returns NotImplemented."""
    if isinstance(v, (datetime.datetime, datetime.date, datetime.time)):
        return v.isoformat()
    if isinstance(v, datetime.timedelta):
        return v.total_seconds()
    if isinstance(v, decimal.Decimal):
        return _number(v)
    if isinstance(v, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(v)).decode()
    if isinstance(v, (uuid.UUID, pathlib.PurePath, fractions.Fraction, complex)):
        return str(v)
    if isinstance(v, re.Pattern):
        return v.pattern
    if isinstance(v, re.Match):
        return v.group()
    if isinstance(v, BaseException):
        return "%s: %s" % (type(v).__name__, v)
    if isinstance(v, type) or callable(v) and hasattr(v, "__name__"):
        return "<%s %s>" % ("class" if isinstance(v, type) else "function", v.__name__)
    if isinstance(v, types.ModuleType):
        return "<module %s>" % v.__name__
    return NotImplemented


def _number(d):
    """Converts a decimal number to a number if that is exact, otherwise to text with all its
    digits."""
    if d.is_finite():
        f = float(d)
        if decimal.Decimal(repr(f)) == d and abs(d.as_tuple().exponent) < 16:
            return int(d) if d == d.to_integral_value() and d.as_tuple().exponent >= 0 else f
    return str(d)


def _float(f):
    return f if math.isfinite(f) else "NaN" if f != f else "Infinity" if f > 0 else "-Infinity"


def _convert(v, inner, futures={}):
    """Converts a value without a JSON form to one that has it; inner converts its elements."""
    if id(v) in futures:
        return inner(futures[id(v)])
    if isinstance(v, enum.Enum):
        return inner(v.value)
    s = _scalar(v)
    if s is not NotImplemented:
        return s
    if isinstance(v, (set, frozenset)):
        return [inner(x) for x in _sorted(v)]
    if dataclasses.is_dataclass(v):
        return {f.name: inner(getattr(v, f.name, None)) for f in dataclasses.fields(v)}
    if inspect.isawaitable(v):
        return "<%s that was not awaited>" % type(v).__name__
    if isinstance(v, collections.abc.Mapping):
        return {_key(k): inner(x) for k, x in v.items()}
    for method in ("model_dump", "to_dict", "_asdict"):
        f = getattr(v, method, None)
        if callable(f):
            return inner(f())
    if isinstance(v, (collections.deque, collections.abc.KeysView, collections.abc.ValuesView, collections.abc.ItemsView)):
        return [inner(x) for x in v]
    if hasattr(v, "__next__") or isinstance(v, collections.abc.Collection):
        out = [inner(x) for x in itertools.islice(iter(v), MAX_ITEMS + 1)]
        if len(out) > MAX_ITEMS:  # it may be infinite, and a partial list would look complete
            raise ValueError("it has over 1,000,000 items: make a list of those that are wanted")
        return out
    try:
        fields = vars(v)
    except TypeError:
        fields = {k: getattr(v, k) for k in getattr(type(v), "__slots__", ()) if isinstance(k, str) and hasattr(v, k)}
    if fields and type(v).__repr__ is object.__repr__:
        return {k: inner(x) for k, x in itertools.islice(fields.items(), MAX_ATTRIBUTES) if not k.startswith("_")}
    return repr(v) if type(v).__repr__ is not object.__repr__ else "<%s>" % type(v).__name__


def _sorted(s):
    try:
        return sorted(s)
    except TypeError:
        return sorted(s, key=lambda x: (type(x).__name__, repr(x)))


def _key(k):
    if isinstance(k, str):
        return str(k)
    if isinstance(k, enum.Enum):
        return _key(k.value)
    if k is None:
        return "null"
    if isinstance(k, bool):
        return "true" if k else "false"
    if isinstance(k, int):
        return str(_tame(k, 0, ()))
    s = _scalar(k)
    if s is not NotImplemented and isinstance(s, str):
        return s
    try:
        return str(k)
    except Exception:
        return "<%s>" % type(k).__name__


def _tame(v, depth, above, futures={}):
    """Converts any value to one that the JSON encoder accepts: without cycles, deep nesting, NaN or
    non-string keys."""
    if v is None or v is True or v is False:
        return v
    if type(v) is str:
        return v
    if isinstance(v, enum.Enum):
        return _tame(v.value, depth, above, futures)
    if isinstance(v, str):
        return str.__str__(v)
    if isinstance(v, int):
        return int(v) if v.bit_length() < 14_000 else hex(v)
    if isinstance(v, float):
        return _float(float(v))
    if id(v) in above:
        return "<cycle>"
    if depth > MAX_DEPTH:
        return "<too deep>"
    above.add(id(v))
    try:
        def inner(x):
            return _tame(x, depth + 1, above, futures)

        if isinstance(v, dict):
            return {_key(k): inner(x) for k, x in v.items()}
        if isinstance(v, tuple) and hasattr(v, "_fields"):
            return {str(k): inner(x) for k, x in zip(v._fields, v)}
        if isinstance(v, (list, tuple)):
            return [inner(x) for x in v]
        return _convert(v, inner, futures)
    except (MemoryError, RecursionError):
        raise
    except Exception as e:
        return "<%s that can't be shown: %s: %s>" % (type(v).__name__, type(e).__name__, str(e)[:200])
    finally:
        above.discard(id(v))


def awaitables(value, budget=100_000):
    """Returns the awaitables in a value: calls, tasks and coroutines."""
    if isinstance(value, (str, int, float, type(None))):
        return []
    found, todo, seen = [], [value], set()
    while todo and budget > 0:
        v = todo.pop()
        budget -= 1
        if isinstance(v, (str, int, float, type(None))):
            continue
        if isinstance(v, (dict, list, tuple, set, frozenset)):
            if id(v) in seen:
                continue
            seen.add(id(v))
            todo.extend(v.values() if isinstance(v, dict) else v)
        elif inspect.isawaitable(v):
            found.append(v)
    return found
