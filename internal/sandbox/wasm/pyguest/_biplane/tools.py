"""The ways in which a program reaches tools: namespaces, call_tool, search, read_result, emit, and import tools."""

import builtins
import importlib.abc
import importlib.machinery
import keyword
import sys
import types

from . import calls, errors, host


def _named(name, keywords):
    """The arguments of a call, as it is written in Python: a parameter that is named like a keyword has a '_' after it."""
    out = {}
    for k, v in keywords.items():
        if k[-1:] == "_" and keyword.iskeyword(k[:-1]):
            k = k[:-1]
        out[k] = v
    return out


def _arguments(path, args, keywords):
    if len(args) > 1 or args and args[0] is not None and not isinstance(args[0], dict):
        kinds = ", ".join(type(a).__name__ for a in args)
        raise TypeError("%s takes its arguments by name: %s(name=value), or as one dict; got %s" % (path, path, kinds))
    out = dict(args[0]) if args and args[0] is not None else {}
    out.update(_named(path, keywords))
    return out


class Tool:
    """A tool: call it with its arguments by name, and await what it gives."""

    __module__ = "tools"

    def __init__(self, path):
        self._path = path
        self.__name__ = path.rpartition(".")[2]
        self.__qualname__ = path

    def __call__(self, /, *args, **keywords):
        return calls.call(self._path, _arguments(self._path, args, keywords))

    def __repr__(self):
        return "<tool %s>" % self._path


class _Settling(Tool):
    """A tool that gives its value, not a call."""

    def __call__(self, /, *args, **keywords):
        return calls.settle(super().__call__(*args, **keywords))


class Namespace(types.ModuleType):
    """The tools of an upstream."""

    def __init__(self, name, members):
        super().__init__("tools." + name)
        self.__dict__["_members"] = tuple(members)
        self.__dict__["_upstream"] = name
        self.__path__ = []

    def __getattr__(self, name):
        if name[:2] == "__":
            raise AttributeError(name)
        t = self.__dict__[name] = Tool(self._upstream + "." + name)
        return t

    def __getitem__(self, name):
        return Tool(self._upstream + "." + name)

    def __dir__(self):
        return list(self._members)

    @property
    def __all__(self):
        return list(self._members)

    def __repr__(self):
        return "<tools %s: %s>" % (self._upstream, ", ".join(self._members))


class _SettlingNamespace(Namespace):
    """The same, of tools that give values."""

    def __getattr__(self, name):
        t = self.__dict__[name] = settling(super().__getattr__(name))
        return t

    def __getitem__(self, name):
        return settling(super().__getitem__(name))


def settling(x):
    """x, or what does as x does and gives values: of a tool, and of the tools of an upstream."""
    if type(x) is Tool:
        return _Settling(x._path)
    return _SettlingNamespace(x._upstream, x._members) if type(x) is Namespace else x


class _Tools(types.ModuleType):
    """All namespaces."""

    def __init__(self):
        super().__init__("tools")
        self.__path__ = []
        self.__dict__["_all"] = {}

    def __getattr__(self, name):
        if name[:2] == "__":
            raise AttributeError(name)
        return namespace(name)

    def __getitem__(self, name):
        return namespace(name)

    def __dir__(self):
        return list(self._all)

    @property
    def __all__(self):
        return list(self._all)

    def __repr__(self):
        return "<tools: %s>" % ", ".join(self._all)


tools = _Tools()
_globals = set()  # names of namespaces that are builtins now
_imported = []  # names of namespaces in sys.modules


def namespace(name):
    """The namespace of that name, listed or not: the host decides what exists."""
    n = tools._all.get(name)
    return n if n is not None else Namespace(name, ())


def set_namespaces(all):
    """Makes the names of a run; all is what the host sent."""
    for name in _globals:
        builtins.__dict__.pop(name, None)
    _globals.clear()
    for m in _imported:
        sys.modules.pop(m, None)
    _imported.clear()
    tools._all.clear()
    shadowed = {}
    for name, members in (all or {}).items():
        n = tools._all[name] = Namespace(name, members or ())
        if hasattr(builtins, name):  # the library needs its builtins: this one is a global of the program's only
            shadowed[name] = n
        else:
            setattr(builtins, name, n)
            _globals.add(name)
    return shadowed


def call_tool(path, /, *args, **keywords):
    """Calls a tool by its path: call_tool("github.list_issues", {"repo": "a/b"})."""
    return calls.call(path, _arguments(str(path), args, keywords))


def search(query="", *args, **options):
    """Searches all tools: await search("open a pull request")."""
    if isinstance(query, dict):
        return calls.call("biplane.search", {**query, **options})
    if args and isinstance(args[0], dict):
        options = {**args[0], **options}
    elif args:
        options["limit"] = args[0]
    return calls.call("biplane.search", {**options, "query": query})


def read_result(handle, *args, **options):
    """Reads what a handle stands for: await read_result("res_1", offset=0, limit=100)."""
    if isinstance(handle, dict):
        handle = handle.get("handle")
    if args and isinstance(args[0], dict):
        options = {**args[0], **options}
    return calls.call("biplane.result", {"handle": handle, **{k: v for k, v in options.items() if v is not None}})


def _send(x):
    if isinstance(x, calls.ToolCall):
        x = calls.settle(x)
    if isinstance(x, (list, tuple)):
        return sum(_send(i) for i in x if not isinstance(i, str) or i.startswith("res_"))
    handle = x.get("handle") if isinstance(x, dict) else x
    if hasattr(handle, "__fspath__"):
        handle = handle.__fspath__()
    if not isinstance(handle, str) or not handle:
        return 0
    host.send("emit", {"handle": handle})
    return 1


class _Sent:
    """What emit gives: nothing, and it can be awaited."""

    def __await__(self):
        return iter(())


def emit(x):
    """Gives the agent an image, audio or resource that a tool answered with, or a file by its path, beside the value."""
    if not _send(x):
        raise TypeError("emit takes an image, audio or resource that a tool returned, or the path of a file, got %s" % type(x).__name__)
    return _Sent()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds tools, tools.<upstream> and biplane."""

    def find_spec(self, name, path=None, target=None):
        if name.startswith("tools.") and name.count(".") == 1:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        _imported.append(spec.name)
        return namespace(spec.name.removeprefix("tools."))

    def exec_module(self, module):
        pass


names = {
    "tools": tools,
    "call_tool": call_tool,
    "callTool": call_tool,
    "search": search,
    "read_result": read_result,
    "readResult": read_result,
    "emit": emit,
    "ToolError": errors.ToolError,
}


def install():
    sys.meta_path.insert(0, Finder())
    sys.modules["tools"] = tools
    sys.modules["biplane"] = errors.module
    for name, value in names.items():
        setattr(builtins, name, value)
        if name != "tools":
            setattr(errors.module, name, value)
