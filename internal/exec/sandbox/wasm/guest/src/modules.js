// import and import(): tools as modules, and the few Node modules that are useful here.

import {
  ErrorCtor, JSONStringify, PromiseCtor, ProxyCtor, StringCtor, TypeErrorCtor, apply, create, define, endsWith, join, keys, list, push, record, slice,
  startsWith,
} from "./primordials.js";
import { Buffer } from "./buffer.js";
import { util } from "./console.js";
import { fs, promises } from "./files.js";
import { loadJSON, located, moduleAt, toolModule } from "./given.js";
import path from "./path.js";
import { after } from "./timers.js";

const noSuch = new ProxyCtor(fs, record({
  get(t, k) {
    if (k in t || typeof k === "symbol" || k === "then" || k === "default") return t[k];
    return () => { throw new ErrorCtor("fs." + k + " is not available: use the functions of node:fs/promises"); };
  },
}));

const os = {
  EOL: "\n", devNull: "/dev/null", tmpdir: () => "/workspace", homedir: () => "/workspace", hostname: () => "sandbox", platform: () => "linux", type: () => "Linux",
  release: () => "", arch: () => "wasm32", endianness: () => "LE", cpus: () => [], totalmem: () => 0, freemem: () => 0, uptime: () => 0, loadavg: () => [0, 0, 0],
  availableParallelism: () => 1, userInfo: () => ({ username: "program", uid: 0, gid: 0, homedir: "/workspace", shell: null }),
};

function promisify(f) {
  if (typeof f !== "function") throw new TypeErrorCtor("promisify takes a function, got a " + typeof f);
  return function (...args) {
    return new PromiseCtor((resolve, reject) => { apply(f, this, [...args, (e, v) => { if (e) reject(e); else resolve(v); }]); });
  };
}

const timersPromises = {
  setTimeout: (ms, value) => new PromiseCtor((resolve) => { after(ms === undefined ? 1 : ms, () => resolve(value)); }),
  setImmediate: (value) => new PromiseCtor((resolve) => { after(0, () => resolve(value)); }),
};

const utilModule = {
  inspect: util.inspect, format: util.format, promisify, TextEncoder, TextDecoder,
  types: { isPromise: (v) => v instanceof PromiseCtor, isDate: (v) => v instanceof Date, isRegExp: (v) => v instanceof RegExp },
};

function moduleOf(o) {
  const m = create(null), own = keys(o);
  for (let i = 0; i < own.length; i++) define(m, own[i], o[own[i]], true);
  define(m, "default", o, true);
  return m;
}

const builtin = record({
  "fs/promises": () => moduleOf(promises),
  fs: () => { const m = moduleOf(fs); m.default = noSuch; return m; },
  os: () => moduleOf(os),
  buffer: () => moduleOf({ Buffer, constants: { MAX_LENGTH: 2 ** 31 - 1 }, atob, btoa }),
  path: () => moduleOf(path),
  "path/posix": () => moduleOf(path),
  "timers/promises": () => moduleOf(timersPromises),
  util: () => moduleOf(utilModule),
  url: () => moduleOf({ URL, URLSearchParams }),
  crypto: () => moduleOf({ randomUUID: crypto.randomUUID, getRandomValues: crypto.getRandomValues, webcrypto: crypto }),
});

function load(specifier, dir) {
  const at = located(dir, specifier);
  if (at !== undefined) {
    const found = moduleAt(at, load);
    if (found !== undefined) return found;
  }
  const tool = toolModule(at === undefined ? specifier : "/" + at);
  if (tool !== undefined) return tool;
  const name = startsWith(specifier, "node:") ? slice(specifier, 5) : specifier;
  if (name in builtin) return builtin[name]();
  if (at !== undefined && (startsWith(at, "skills/") || startsWith(at, "workspace/"))) {
    throw new ErrorCtor("cannot import " + JSONStringify(specifier) + ": there was no module " + at + " when the program began" +
      (startsWith(at, "workspace/") ? ", and one that it writes itself is there for the next program only" : ""));
  }
  const modules = list(), own = keys(builtin);
  for (let i = 0; i < own.length; i++) push(modules, "node:" + own[i]);
  throw new ErrorCtor("cannot import " + JSONStringify(specifier) + ": a program may import ./tools/<upstream>, ./tools/<upstream>/<tool>, ./skills/<name>, " +
    "./workspace/<file>.json, " + join(modules, ", ") + "; packages are not available");
}

define(globalThis, "__import", function __import(specifier) {
  try {
    specifier = StringCtor(specifier);
    const at = located("", specifier);
    if (at !== undefined && endsWith(at, ".json") && !startsWith(at, "tools/")) return loadJSON(at);
    return settledWith(load(specifier, ""));
  } catch (e) { return new PromiseCtor((resolve, reject) => { reject(e); }); }
});

function settledWith(m) { return new PromiseCtor((resolve) => { resolve(m); }); }
