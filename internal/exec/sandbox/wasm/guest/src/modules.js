// import and import(): tools as modules, and the few Node modules that are useful here.

import path from "../../../../../../third_party/path-browserify/index.js";
import {
  ErrorCtor, JSONStringify, PromiseCtor, ProxyCtor, StringCtor, TypeErrorCtor, MapCtor, apply, create, define, endsWith, exec, join, keys, lastIndexOf,
  list, mapGet, mapSet, push, record, slice, startsWith, toUpperCase,
} from "./primordials.js";
import { Buffer } from "./buffer.js";
import { util } from "./console.js";
import { fs, promises, readText } from "./files.js";
import { parse } from "./json.js";
import { allTools, namespaceOf, toolOf } from "./tools.js";
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

function withDefault(ns, rename) {
  return new ProxyCtor(create(null), record({
    get: (t, k) => (k === "default" ? ns : typeof k === "symbol" || k === "then" ? undefined : ns[rename ? safe(k) : k]),
    has: (t, k) => k === "default" || k in ns,
    ownKeys: () => keys(ns),
    getOwnPropertyDescriptor: (t, k) => ({ __proto__: null, value: ns[k], enumerable: true, configurable: true }),
    getPrototypeOf: () => null,
  }));
}

// Returns the identifier for a tool or upstream whose exact name is a file name: '-' and '.' become
// '_'.
function safe(name) {
  let out = "";
  for (let i = 0; i < name.length; i++) out += name[i] === "-" || name[i] === "." ? "_" : name[i];
  return out;
}

// Converts list_issues to listIssues.
function camel(name) {
  let out = "";
  for (let i = 0; i < name.length; i++) out += name[i] === "_" && out !== "" && i + 1 < name.length ? toUpperCase(name[++i]) : name[i];
  return out;
}

const toolPath = /^(?:\.{1,2}\/)*(?:\/)?(?:tools|servers)(?:\/([^/]+))?(?:\/([^/]+?))?(?:\/)?$/;
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
  const f = toolOf(safe(upstream), safe(member)), out = create(null);
  define(out, safe(member), f, true);
  define(out, camel(safe(member)), f, true);
  define(out, "default", f, true);
  return out;
}

// --- skills, and modules in ./workspace: the host compiles them and sends them with the programs
// that import them ---

const given = new MapCtor(); // path below the root to {hash, run, module}

// __module(path, hash, function) registers a module. A loaded module stays until its text changes.
define(globalThis, "__module", function __module(path, hash, run) {
  const before = mapGet(given, path);
  if (before === undefined || before.hash !== hash) mapSet(given, path, record({ hash, run, module: undefined }));
});

// Resolves the specifier of a module in the directory dir to a path below the root; undefined if it
// is not a path.
function located(dir, specifier) {
  if (startsWith(specifier, "./") || startsWith(specifier, "../")) return slice(path.normalize("/" + dir + "/" + specifier), 1);
  if (startsWith(specifier, "/")) return slice(path.normalize(specifier), 1);
  return startsWith(specifier, "skills/") || startsWith(specifier, "workspace/") ? path.normalize(specifier) : undefined;
}

const endings = ["", ".ts", ".js", ".mts", ".mjs", "/index.ts", "/index.js"];

function find(at) {
  for (let i = 0; i < endings.length; i++) {
    const m = mapGet(given, at + endings[i]);
    if (m !== undefined) { m.path = at + endings[i]; return m; }
  }
  return undefined;
}

function moduleAt(at) {
  const m = find(at);
  if (m === undefined) return undefined;
  // May be incomplete while modules import each other.
  if (m.module !== undefined) return m.module.exports;
  m.module = { exports: {} };
  const dir = slice(m.path, 0, lastIndexOf(m.path, "/"));
  try { m.run(m.module, m.module.exports, (specifier) => load(StringCtor(specifier), dir)); } catch (e) { m.module = undefined; throw e; }
  return m.module.exports;
}

function load(specifier, dir) {
  const at = located(dir, specifier);
  if (at !== undefined) {
    const found = moduleAt(at);
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

async function loadJSON(at) {
  const value = parse(await readText("/" + at)), out = create(null);
  if (value !== null && typeof value === "object") {
    const own = keys(value);
    for (let i = 0; i < own.length; i++) define(out, own[i], value[own[i]], true);
  }
  define(out, "default", value, true);
  return out;
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
