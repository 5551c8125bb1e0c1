// import and import(): tools as files, and the few modules of Node that make sense here.

import path from "../../../../../third_party/path-browserify/index.js";
import {
  ErrorCtor, JSONStringify, PromiseCtor, ProxyCtor, StringCtor, create, define, endsWith, exec, join, keys, list, named, push, record, slice, startsWith,
} from "./primordials.js";
import { askFile } from "./calls.js";
import { util } from "./console.js";
import { encodeUTF8 } from "./encoding.js";
import { allTools, namespaceOf } from "./tools.js";
import { after } from "./timers.js";

const encodingOf = (o) => (typeof o === "string" ? o : o !== null && typeof o === "object" ? o.encoding : undefined);

function fileBytes(text) {
  const b = encodeUTF8(text);
  define(b, "toString", () => text);
  return b;
}

const textOf = (p) => (p !== null && typeof p === "object" && typeof p.href === "string" ? p.pathname : StringCtor(p));

async function readFile(p, options) {
  const text = await askFile("read", textOf(p));
  return encodingOf(options) ? text : fileBytes(text);
}

function stats(s, name) {
  const dir = s.dir === true;
  return {
    name, size: s.size || 0, isDirectory: () => dir, isFile: () => !dir, isSymbolicLink: () => false, mode: dir ? 0o40555 : 0o100444,
  };
}

async function stat(p) { return stats(await askFile("stat", textOf(p))); }

async function readdir(p, options) {
  const root = textOf(p), typed = !!(options && options.withFileTypes), deep = !!(options && options.recursive);
  const out = [];
  const visit = async (dir, prefix) => {
    const names = await askFile("list", dir);
    for (const name of names) {
      const s = typed || deep ? stats(await askFile("stat", dir + "/" + name), name) : undefined;
      if (typed) { s.parentPath = s.path = dir; out.push(s); } else out.push(prefix + name);
      if (deep && s.isDirectory()) await visit(dir + "/" + name, prefix + name + "/");
    }
  };
  await visit(root, "");
  return out;
}

async function access(p) { await askFile("stat", textOf(p)); }

function readOnly(name) {
  return named(async (p) => {
    const e = new ErrorCtor("EROFS: files are read-only here, " + name + " '" + textOf(p) + "': return the value instead, it is kept for later programs");
    e.code = "EROFS";
    throw e;
  }, name);
}

const promises = { readFile, readdir, stat, lstat: stat, access, constants: { F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1 } };
for (const n of ["writeFile", "appendFile", "mkdir", "mkdtemp", "rm", "rmdir", "unlink", "rename", "copyFile", "cp", "chmod", "symlink", "truncate", "open"]) promises[n] = readOnly(n);

const fs = new ProxyCtor({ promises, constants: promises.constants }, record({
  get(t, k) {
    if (k === "promises" || k === "constants") return t[k];
    if (typeof k === "symbol" || k === "then" || k === "default") return undefined;
    return () => { throw new ErrorCtor("fs." + k + " is not available: use the functions of node:fs/promises (readFile, readdir, stat, access)"); };
  },
}));

const timersPromises = {
  setTimeout: (ms, value) => new PromiseCtor((resolve) => { after(ms === undefined ? 1 : ms, () => resolve(value)); }),
  setImmediate: (value) => new PromiseCtor((resolve) => { after(0, () => resolve(value)); }),
};

const utilModule = { inspect: util.inspect, format: util.format, TextEncoder, TextDecoder };

function moduleOf(o) {
  const m = create(null), own = keys(o);
  for (let i = 0; i < own.length; i++) define(m, own[i], o[own[i]], true);
  define(m, "default", o, true);
  return m;
}

const builtin = record({
  "fs/promises": () => moduleOf(promises),
  fs: () => { const m = moduleOf({ promises, constants: promises.constants }); m.default = fs; return m; },
  path: () => moduleOf(path),
  "path/posix": () => moduleOf(path),
  "timers/promises": () => moduleOf(timersPromises),
  util: () => moduleOf(utilModule),
  url: () => moduleOf({ URL, URLSearchParams }),
  crypto: () => moduleOf({ randomUUID: crypto.randomUUID, getRandomValues: crypto.getRandomValues, webcrypto: crypto }),
});

function withDefault(ns, rename) {
  return new ProxyCtor(create(null), record({
    get: (t, k) => (k === "default" ? ns : typeof k === "symbol" || k === "then" ? undefined : ns[rename ? safe(k) : k]),
    has: (t, k) => k === "default" || k in ns,
    ownKeys: () => keys(ns),
    getOwnPropertyDescriptor: (t, k) => ({ __proto__: null, value: ns[k], enumerable: true, configurable: true }),
    getPrototypeOf: () => null,
  }));
}

// The safe name of a tool or an upstream whose exact name is a file name: '-' and '.' become '_'.
function safe(name) {
  let out = "";
  for (let i = 0; i < name.length; i++) out += name[i] === "-" || name[i] === "." ? "_" : name[i];
  return out;
}

const toolPath = /^(?:\.{1,2}\/)*(?:\/)?tools(?:\/([^/]+))?(?:\/([^/]+?))?(?:\/)?$/;
const suffixes = [".ts", ".js", ".mts", ".mjs", ".d"];

function stem(name) {
  for (let i = 0; i < suffixes.length; i++) if (endsWith(name, suffixes[i])) return slice(name, 0, name.length - suffixes[i].length);
  return name;
}

function toolModule(specifier) {
  const m = exec(toolPath, specifier);
  if (m === null) return undefined;
  let upstream = m[1] === undefined ? undefined : stem(m[1]), member = m[2] === undefined ? undefined : stem(m[2]);
  if (upstream === "index") upstream = undefined;
  if (upstream === undefined) return withDefault(allTools());
  const ns = namespaceOf(safe(upstream));
  if (member === undefined || member === "index") return withDefault(ns);
  const f = ns[safe(member)], out = create(null);
  define(out, safe(member), f, true);
  define(out, "default", f, true);
  return out;
}

function load(specifier) {
  const tool = toolModule(specifier);
  if (tool !== undefined) return tool;
  const name = startsWith(specifier, "node:") ? slice(specifier, 5) : specifier;
  if (name in builtin) return builtin[name]();
  const modules = list(), own = keys(builtin);
  for (let i = 0; i < own.length; i++) push(modules, "node:" + own[i]);
  throw new ErrorCtor("cannot import " + JSONStringify(specifier) + ": a program may import ./tools/<upstream>, ./tools/<upstream>/<tool>, " +
    join(modules, ", ") + "; packages are not available");
}

define(globalThis, "__import", function __import(specifier) {
  try { return settledWith(load(StringCtor(specifier))); } catch (e) { return new PromiseCtor((resolve, reject) => { reject(e); }); }
});

function settledWith(m) { return new PromiseCtor((resolve) => { resolve(m); }); }
