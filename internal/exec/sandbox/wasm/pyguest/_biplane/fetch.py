"""fetch: HTTP requests to hosts that policy permits. They are made as tool calls and pass the same
checks."""

import base64
import builtins
import json as json_
import urllib.parse

from . import calls, errors, values
from .private import private

base64, json_, urllib_parse = private(base64), private(json_), private(urllib.parse)

_REDIRECTS = (301, 302, 303, 307, 308)
_MOST = 10  # redirects


class Headers(dict):
    """HTTP headers; keys are in lower case and lookup ignores case."""

    def __getitem__(self, name):
        return super().__getitem__(name.lower())

    def __contains__(self, name):
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name, default=None):
        return super().get(name.lower(), default)


class _Text(str):
    """A text that may also be called or awaited: response.text, response.text() and await
    response.text()."""

    __slots__ = ()

    def __call__(self):
        return self

    def __await__(self):
        return str(self)
        yield


class Response:
    """An HTTP response: status, ok, url, headers, text, content, json()."""

    __module__ = "biplane"

    def __init__(self, answer, redirected):
        self.status = self.status_code = answer["status"]
        self.reason = self.status_text = answer.get("statusText", "")
        self.ok = 200 <= self.status < 300
        self.url = answer["url"]
        self.redirected = redirected
        self.headers = Headers(answer.get("headers") or {})
        text = answer.get("text")
        self.content = base64.b64decode(answer.get("base64") or "") if text is None else text.encode()
        self.text = _Text(self.content.decode("utf-8", "replace") if text is None else text)

    def json(self):
        value = values.decode(self.text)
        return values.List(value) if type(value) is list else value

    def raise_for_status(self):
        if self.status >= 400:
            raise RuntimeError("%s answered with status %d %s" % (self.url, self.status, self.reason))

    def to_dict(self):
        return {"status": self.status, "url": self.url, "headers": dict(self.headers)}

    def __repr__(self):
        return "<Response %d %s>" % (self.status, self.url)


def _body(body, json, headers):
    if json is not None:
        if body is not None:
            raise TypeError("fetch takes body or json, not both")
        headers.setdefault("content-type", "application/json")
        return {"body": json_.dumps(json)}
    if body is None:
        return {}
    if isinstance(body, (bytes, bytearray, memoryview)):
        return {"body": base64.b64encode(bytes(body)).decode(), "base64": True}
    if isinstance(body, dict):
        headers.setdefault("content-type", "application/x-www-form-urlencoded;charset=UTF-8")
        return {"body": urllib_parse.urlencode(body, doseq=True)}
    if not isinstance(body, str):
        raise TypeError("the body of fetch is a string, bytes or a dict of form fields, not %s: use json=... for other values" % type(body).__name__)
    headers.setdefault("content-type", "text/plain;charset=UTF-8")
    return {"body": body}


def _origin(url):
    u = urllib_parse.urlsplit(url)
    return u.scheme, u.hostname, u.port


async def fetch(url, method="GET", headers=None, body=None, json=None, params=None, redirect="follow"):
    """Makes an HTTP request: r = await fetch("https://api.example.com/items"); r.status, r.headers,
    r.text, r.json()."""
    if isinstance(method, dict):  # as in JavaScript: fetch(url, {"method": "POST"})
        return await fetch(url, **method)
    url, verb = str(url), str(method).upper()
    headers = {str(k).lower(): str(v) for k, v in dict(headers or {}).items()}
    if params:
        url += ("&" if "?" in url else "?") + urllib_parse.urlencode(params, doseq=True)
    rest = _body(body, json, headers)
    if rest and verb in ("GET", "HEAD"):
        raise TypeError("a request with method %s has no body" % verb)
    for hop in range(_MOST + 1):
        path = "biplane.fetch" if verb in ("GET", "HEAD") else "biplane.send"
        answer = await calls.call(path, {"url": url, "method": verb, "headers": headers, **rest})
        to = answer.get("headers", {}).get("location")
        if answer["status"] not in _REDIRECTS or not to or redirect == "manual":
            return Response(answer, hop > 0)
        if redirect == "error":
            raise RuntimeError("%s redirects to %s" % (url, to))
        to = urllib_parse.urljoin(answer["url"], to)
        if _origin(to) != _origin(answer["url"]):
            headers = {k: v for k, v in headers.items() if k not in ("authorization", "cookie")}
        if answer["status"] == 303 and verb != "HEAD" or answer["status"] < 303 and verb == "POST":
            verb, rest = "GET", {}
            headers.pop("content-type", None)
        url = to
    raise RuntimeError("more than %d redirects" % _MOST)


fetch.__module__ = "biplane"


def install():
    builtins.fetch = errors.module.fetch = fetch
