import importlib.abc as _abc
import importlib.machinery as _machinery
import inspect as _inspect
import json as _json
import linecache as _linecache
import os as _os
import sys as _sys
import typing as _typing


class _Finder(_abc.MetaPathFinder, _abc.Loader):
    """Imports modules from the texts of the folder's files."""

    def __init__(self, files):
        self.files = files

    def _path(self, name):
        at = name.replace(".", "/")
        for p in (at + ".py", at + "/__init__.py"):
            if p in self.files:
                return p
        return None

    def find_spec(self, name, path=None, target=None):
        at = self._path(name)
        if at is not None:
            return _machinery.ModuleSpec(name, self, origin=at, is_package=at.endswith("/__init__.py"))
        if any(f.startswith(name.replace(".", "/") + "/") for f in self.files):
            return _machinery.ModuleSpec(name, self, origin=None, is_package=True)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        at = module.__spec__.origin
        if at is None:
            return
        text = self.files[at]
        _linecache.cache[at] = (len(text), None, text.splitlines(True), at)
        exec(compile(text, at, "exec"), module.__dict__)


def _load(files, path):
    _sys.meta_path.insert(0, _Finder(files))
    _sys.path_importer_cache.clear()
    name = path[: -len(".py")].replace("/", ".")
    if not all(part.isidentifier() for part in name.split(".")):
        files["_tool_.py"] = files[path]
        name = "_tool_"
    # The folder's files come first, but not before modules that are loaded already.
    _sys.modules.pop(name, None)
    return _import(name)


def _import(name):
    import importlib

    return importlib.import_module(name)


_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def _schema(t, notes, depth=0):
    import collections.abc
    import dataclasses
    import datetime
    import enum
    import types

    if depth > 20 or t is _typing.Any or t is _inspect.Parameter.empty or t is object:
        return {}
    if t is None:
        t = type(None)
    if isinstance(t, type) and t in _PLAIN:
        return {"type": _PLAIN[t]}
    if t in (dict, list, tuple, set, frozenset, bytes):
        if t is bytes:
            notes.append("bytes arrive as a text")
            return {"type": "string"}
        return {"type": "object" if t is dict else "array"}
    origin, args = _typing.get_origin(t), _typing.get_args(t)
    again = lambda x: _schema(x, notes, depth + 1)
    if origin is _typing.Annotated:
        s = again(args[0])
        for a in args[1:]:
            if isinstance(a, str):
                s = {**s, "description": a}
            elif isinstance(getattr(a, "description", None), str):
                s = {**s, "description": a.description}
        return s
    if origin is _typing.Literal:
        return {"enum": list(args)}
    if origin in (_typing.Union, types.UnionType):
        return {"anyOf": [again(a) for a in args]}
    if origin in (list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection):
        return {"type": "array", "items": again(args[0]) if args else {}}
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return {"type": "array", "items": again(args[0])}
        return {"type": "array", "prefixItems": [again(a) for a in args], "minItems": len(args), "maxItems": len(args)}
    if origin in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
        return {"type": "object", "additionalProperties": again(args[1]) if len(args) > 1 else {}}
    if origin in (_typing.Required, _typing.NotRequired):
        return again(args[0])
    if isinstance(t, type) and issubclass(t, enum.Enum):
        notes.append("%s arrives as its value: make it with %s(value)" % (t.__name__, t.__name__))
        return {"enum": [m.value for m in t]}
    if _typing.is_typeddict(t):
        hints = _typing.get_type_hints(t, include_extras=True)
        return {"type": "object", "properties": {k: again(v) for k, v in hints.items()},
                "required": [k for k in hints if k in t.__required_keys__]}
    if dataclasses.is_dataclass(t):
        notes.append("%s arrives as a dict" % t.__name__)
        hints = _typing.get_type_hints(t, include_extras=True)
        fields = dataclasses.fields(t)
        return {"type": "object", "properties": {f.name: again(hints.get(f.name, _typing.Any)) for f in fields},
                "required": [f.name for f in fields
                             if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]}
    if t in (datetime.datetime, datetime.date):
        notes.append("dates arrive as texts: convert them with fromisoformat")
        return {"type": "string", "format": "date-time" if t is datetime.datetime else "date"}
    notes.append("the type %s is any" % (getattr(t, "__name__", None) or t,))
    return {}


def _describe(module):
    out, seen = [], set()
    listed = getattr(module, "__all__", None)
    for name, f in list(vars(module).items()):
        if not _inspect.isfunction(f) or f.__module__ != module.__name__:
            continue
        if name.startswith("_") or listed is not None and name not in listed:
            continue
        if id(f) in seen:  # another name of the same function
            continue
        seen.add(id(f))
        info = {"name": name, "kind": "function", "notes": [], "description": _inspect.getdoc(f) or ""}
        if isinstance(getattr(f, "description", None), str):
            info["description"] = f.description
        if isinstance(getattr(f, "annotations", None), dict):
            info["annotations"] = f.annotations
        try:
            _signature(f, info)
        except Exception as e:
            info["problem"] = "%s: %s" % (type(e).__name__, e)
        out.append(info)
    return out


def _signature(f, info):
    notes = info["notes"]
    try:
        hints = _typing.get_type_hints(f, include_extras=True)
    except Exception as e:
        hints = {}
        notes.append("its type hints can't be read (%s): its parameters are any" % e)
    properties, required, names, extra = {}, [], [], False
    for p in _inspect.signature(f).parameters.values():
        s = _schema(hints.get(p.name, _inspect.Parameter.empty), notes)
        if p.kind is p.VAR_KEYWORD:
            extra = s
            continue
        if p.name not in hints:
            notes.append("the parameter %s has no type hint: it is any" % p.name)
        if p.kind is p.VAR_POSITIONAL:
            s = {"type": "array", "items": s}
        if p.default is not p.empty:
            try:
                _json.dumps(p.default)
                if p.default is not None:
                    s = {**s, "default": p.default}
            except (TypeError, ValueError):
                pass
        elif p.kind is not p.VAR_POSITIONAL:
            required.append(p.name)
        properties[p.name] = s
        names.append(p.name)
    _documented(info["description"], properties)
    written = getattr(f, "parameters", None)
    if isinstance(written, dict):
        info["schema"] = written
    else:
        info["schema"] = {"type": "object", "properties": properties, "additionalProperties": extra}
        if required:
            info["schema"]["required"] = required
    info["names"] = names


def _documented(doc, properties):
    """Adds what a docstring says about parameters: "name: text", "name (type): text", ":param name: text"."""
    import re

    for line in doc.splitlines():
        m = re.match(r"\s*(?::param\s+)?(?:[\w\[\], .|]+\s)?\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s+(.+)", line)
        if m and m[1] in properties and "description" not in properties[m[1]]:
            properties[m[1]]["description"] = m[2].strip()


async def _invoke(module, how, arguments):
    f = getattr(module, how["export"])
    args, kwargs, left = [], {}, dict(arguments)
    for p in _inspect.signature(f).parameters.values():
        if p.kind is p.VAR_KEYWORD:
            kwargs.update(left)
            left = {}
        elif p.name in left:
            v = left.pop(p.name)
            if p.kind is p.VAR_POSITIONAL:
                args.extend(v)
            elif p.kind is p.POSITIONAL_ONLY:
                args.append(v)
            elif args and p.kind is p.POSITIONAL_OR_KEYWORD:
                args.append(v)
            elif p.kind is p.POSITIONAL_OR_KEYWORD and any(
                    q.kind is q.VAR_POSITIONAL for q in _inspect.signature(f).parameters.values()):
                args.append(v)
            else:
                kwargs[p.name] = v
    if left:
        kwargs.update(left)
    r = f(*args, **kwargs)
    if _inspect.isawaitable(r):
        r = await r
    return r


async def _main(files, path, env, method, how, arguments):
    files, path, method = _json.loads(files), _json.loads(path), _json.loads(method)
    _os.environ.update(_json.loads(env) or {})
    module = _load(files, path)
    if method == "describe":
        return _describe(module)
    return await _invoke(module, _json.loads(how), _json.loads(arguments) or {})
