"""How programs reach tools: namespaces, call_tool, search, read_result, emit, and import tools."""

import builtins
import importlib.abc
import importlib.machinery
import keyword
import sys
import types

from . import calls, errors, host


def _named(name, keywords):
    """Returns the keyword arguments of a call. A parameter named like a Python keyword is written
    with a trailing '_'."""
    out = {}
    for k, v in keywords.items():
        if k[-1:] == "_" and keyword.iskeyword(k[:-1]):
            k = k[:-1]
        out[k] = v
    return out


def _arguments(path, args, keywords):
    """Returns the arguments of a call: a dict, or a list of positional ones, whose names the host
    knows."""
    args = tuple(map(calls.settled, args))
    if len(args) > 1 or args and args[0] is not None and not isinstance(args[0], dict):
        return [*args, _named(path, keywords)] if keywords else list(args)
    out = dict(args[0]) if args and args[0] is not None else {}
    out.update(_named(path, keywords))
    return out


class Tool:
    """A tool: call it with its arguments by name, and await the result."""

    __module__ = "tools"

    def __init__(self, path):
        self._path = path
        self.__name__ = path.rpartition(".")[2]
        self.__qualname__ = path

    def __call__(self, /, *args, **keywords):
        return calls.call(self._path, _arguments(self._path, args, keywords))

    def __getattr__(self, name):
        """Resolves a path of three levels: github.issues.list."""
        if name[:1] == "_":
            raise AttributeError(name)
        return type(self)(self._path + "." + name)

    def __repr__(self):
        return "<tool %s>" % self._path


class _Settling(Tool):
    """A tool that returns its value instead of a call."""

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

    def __call__(self, /, *args, **keywords):
        """Resolves tools.mcp__github__list_issues(...): the host knows which tool is meant."""
        return Tool(self._upstream)(*args, **keywords)

    def __dir__(self):
        return list(self._members)

    @property
    def __all__(self):
        return list(self._members)

    def __repr__(self):
        return "<tools %s: %s>" % (self._upstream, ", ".join(self._members))


class _SettlingNamespace(Namespace):
    """The tools of an upstream, as functions that return values."""

    def __getattr__(self, name):
        t = self.__dict__[name] = settling(super().__getattr__(name))
        return t

    def __getitem__(self, name):
        return settling(super().__getitem__(name))


def settling(x):
    """Returns the counterpart of a tool or upstream whose calls return values; any other x
    unchanged."""
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
        if name not in self._all and name in _also:
            return _also[name]
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
_also = {}  # members of tools besides namespaces: other systems offer them there
_globals = set()  # names of namespaces that are builtins now
_imported = []  # names of namespaces in sys.modules


def namespace(name):
    """Returns the namespace with that name, listed or not: the host decides what exists."""
    n = tools._all.get(name)
    if n is not None:
        return n
    n = aliases.get(name)
    return n if type(n) is Namespace else Namespace(name, ())


modules = {}  # modules that are builtins
aliases = {}  # for this run: alternative spellings and what they mean


def _aliased(path):
    upstream, dot, member = path.partition(".")
    if dot:
        return getattr(tools._all[upstream], member) if upstream in tools._all else Tool(path)
    return tools._all.get(path) or Tool(path)


def set_namespaces(all, others=None):
    """Defines the names of a run. all is the host's list; others holds alternative names for some
    of it."""
    for name in _globals:
        builtins.__dict__.pop(name, None)
        if name in modules:
            builtins.__dict__[name] = modules[name]
    _globals.clear()
    for m in _imported:
        sys.modules.pop(m, None)
    _imported.clear()
    tools._all.clear()
    shadowed = {}
    for name, members in (all or {}).items():
        n = tools._all[name] = Namespace(name, members or ())
        # The library needs its builtins: this one becomes a global of the program only.
        if hasattr(builtins, name) and name not in modules:
            shadowed[name] = n
        else:
            setattr(builtins, name, n)
            _globals.add(name)
    aliases.clear()
    for name, path in (others or {}).items():
        if not hasattr(builtins, name):
            aliases[name] = _aliased(path)
            setattr(builtins, name, aliases[name])
            _globals.add(name)
    return shadowed


def _spaced(name):
    """Reports whether a name means an upstream, in any spelling."""
    whole = _fold(name)
    return any(whole in (f, "mcp" + f, f + "mcp") for f in map(_fold, tools._all))


def _fold(name):
    return "".join(c for c in name.lower() if c.isalnum())


def _named_tool(keywords):
    """Returns the path and arguments of call_tool(name="github.list_issues", arguments={...})."""
    for key in ("name", "tool_name", "tool", "path"):
        if isinstance(keywords.get(key), str):
            path = keywords.pop(key)
            break
    else:
        return None, ()
    for key in ("server", "server_name"):
        if isinstance(keywords.get(key), str):
            path = keywords.pop(key) + "." + path
    return path, ()


def call_tool(*args, **keywords):
    """Calls a tool by its path: call_tool("github.list_issues", {"repo": "a/b"}), or
    call_tool("github", "list_issues", {...})."""
    if args:
        path, args = calls.settled(args[0]), args[1:]
    else:
        path, args = _named_tool(keywords)
    if isinstance(path, str) and "." not in path and "__" not in path and args and isinstance(args[0], str):
        if len(args) > 1 or _spaced(path):
            path, args = path + "." + args[0], args[1:]
    for key in ("arguments", "args", "tool_args"):
        if not args and len(keywords) == 1 and isinstance(keywords.get(key), dict):
            args, keywords = (keywords[key],), {}
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
    """Reads the content of a handle: await read_result("res_1", offset=0, limit=100)."""
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
    """The result of emit: None when awaited."""

    def __await__(self):
        return iter(())


class _Done:
    """The result of text and similar functions: itself when awaited."""

    def __await__(self):
        return self
        yield


done = _Done()


def emit(x):
    """Shows the agent an image, audio or other resource returned by a tool, or a file given by its
    path, besides the value."""
    if not _send(x):
        raise TypeError("emit takes an image, audio or resource that a tool returned, or the path of a file, got %s" % type(x).__name__)
    return _Sent()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The finder for tools, tools.<upstream> and biplane."""

    def find_spec(self, name, path=None, target=None):
        if name.startswith(("tools.", "servers.")) and name.count(".") == 1:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        _imported.append(spec.name)
        return namespace(spec.name.removeprefix("servers.").removeprefix("tools."))

    def exec_module(self, module):
        pass


names = {
    "tools": tools,
    "call_tool": call_tool,
    "callTool": call_tool,
    "servers": tools,
    "codemode": tools,
    "mcp": tools,
    "api": tools,
    "search": search,
    "read_result": read_result,
    "readResult": read_result,
    "emit": emit,
    "ToolError": errors.ToolError,
}


_also.update({n: names[n] for n in ("call_tool", "callTool", "search")})


def install():
    sys.meta_path.insert(0, Finder())
    sys.modules["tools"] = sys.modules["servers"] = tools
    sys.modules["biplane"] = errors.module
    for name, value in names.items():
        setattr(builtins, name, value)
        if value is not tools:
            setattr(errors.module, name, value)
