"""Import of ./skills, and errors for modules that don't exist."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys

from . import host, tools

_NATIVE = "packages with native code can't be loaded: use the standard library (statistics, math, csv, json, decimal), or a tool that does the work; find one with search(\"...\")"
_NETWORK = "the sandbox has no network: use tools to reach services; find them with search(\"...\"), and use await fetch(url) for hosts that policy permits"

_why = {}
for _n in "numpy pandas scipy sklearn matplotlib seaborn polars pyarrow torch tensorflow PIL cv2 lxml cryptography psycopg2 duckdb orjson ujson".split():
    _why[_n] = _NATIVE
for _n in "requests httpx aiohttp urllib3 httplib2 boto3 openai anthropic github google slack_sdk paramiko websockets ssl ftplib smtplib imaplib poplib xmlrpc telnetlib".split():
    _why[_n] = _NETWORK
for _n in "multiprocessing pty".split():
    _why[_n] = "the sandbox has no processes: use asyncio.gather for what waits"
for _n in "sqlite3 ctypes tkinter curses readline bz2 lzma dbm _ctypes _sqlite3 _bz2 _lzma _tkinter".split():
    _why[_n] = "this module of the standard library is not in the embedded engine"
for _n, _to in {"bs4": "html.parser", "yaml": "json", "dateutil": "datetime and zoneinfo", "pytz": "zoneinfo", "pydantic": "dataclasses", "tabulate": "str.ljust", "tqdm": "print", "toml": "tomllib", "dotenv": "os.environ", "simplejson": "json"}.items():
    _why[_n] = "only the standard library is here; %s may do" % _to


class _Missing(importlib.abc.MetaPathFinder):
    """The last finder on sys.meta_path."""

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if "." in name and top in sys.modules:
            return None
        if name in tools.tools._all:  # no module has this name
            return importlib.machinery.ModuleSpec(name, tools.Finder(), is_package=True)
        if host.process:
            why = "it isn't installed in the image of this sandbox"
        else:
            why = _why.get(top, "only the standard library, ./skills and tools are here")
        raise ModuleNotFoundError("No module named %r: %s" % (name, why), name=name)


class SkillLoader(importlib.machinery.SourceFileLoader):
    """Loads the program's own modules. Their tool calls are awaited as in programs."""

    def source_to_code(self, data, path, *, _optimize=-1):
        from . import rewrite

        return rewrite.module(importlib.util.decode_source(data), path)

    def cache_bytecode(self, *a, **k):
        pass


def forget():
    """Clears the import caches: files change between programs."""
    for finder in sys.path_importer_cache.values():
        if finder is not None:
            finder.invalidate_caches()


def install():
    hook = importlib.machinery.FileFinder.path_hook(
        (SkillLoader, importlib.machinery.SOURCE_SUFFIXES),
    )

    def own(path):
        if (path + "/").startswith(host.libraries):
            raise ImportError("the library's own", path=path)
        return hook(path)

    sys.path_hooks.insert(0, own)
    sys.path += ["/", "/workspace"]
    sys.path_importer_cache.clear()
    sys.meta_path.append(_Missing())
