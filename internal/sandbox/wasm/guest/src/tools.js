// The ways in which a program reaches tools: namespaces, callTool, search, readResult, emit.

import {
  ErrorCtor, MapCtor, ObjectPrototype, ProxyCtor, SetCtor, TypeErrorCtor, create, define, deleteProperty, getOwnPropertyDescriptor, global, hasOwn, isArray, join,
  keys, list, mapForEach, mapGet, mapHas, mapSet, named, record, setAdd, setHas, startsWith,
} from "./primordials.js";
import { callPath, callTool } from "./calls.js";
import { mustBeFile } from "./files.js";
import { pathPart, sendEmit } from "./host.js";

const inspectCustom = Symbol.for("nodejs.util.inspect.custom");

// Names that the language itself asks of any object: they are never tools.
const silent = new SetCtor();
for (const n of ["then", "catch", "finally", "toJSON", "__proto__", "prototype", "caller", "arguments", "$$typeof", "nodeType", "inspect"]) setAdd(silent, n);

function refuse() { throw new TypeErrorCtor(this.label + " holds tools: it can't be changed"); }

const textOf = (l) => "[" + l.label + ": " + join(l.names, ", ") + "]";

// Whether a listing lists k. The set of its names is made when it is first asked for: most programs use a few tools of many.
function lists(l, k) {
  if (l.listed === undefined) {
    l.listed = new SetCtor();
    for (let i = 0; i < l.names.length; i++) setAdd(l.listed, l.names[i]);
  }
  return setHas(l.listed, k);
}

function memberOf(l, k) {
  if (l.made === none) l.made = create(null);
  let m = l.made[k];
  if (m === undefined) m = l.made[k] = l.make(k);
  return m;
}

const none = create(null);

// The traps of all listings; this is the listing.
const traps = record({
  get(t, k) {
    const m = this.made[k];
    if (m !== undefined) return m;
    if (typeof k === "symbol") return k === inspectCustom ? () => textOf(this) : undefined;
    if (lists(this, k)) return memberOf(this, k);
    if (setHas(silent, k)) return k === "toJSON" ? () => textOf(this) : undefined;
    if (k === "toString" || k === "toLocaleString") return () => textOf(this);
    if (hasOwn(ObjectPrototype, k)) return ObjectPrototype[k];
    return memberOf(this, k);
  },
  has(t, k) { return lists(this, k); },
  ownKeys() {
    const out = [];
    for (let i = 0; i < this.names.length; i++) define(out, i, this.names[i], true);
    return out;
  },
  getOwnPropertyDescriptor(t, k) {
    return lists(this, k) ? { __proto__: null, value: memberOf(this, k), enumerable: true, configurable: true, writable: false } : undefined;
  },
  set: refuse, defineProperty: refuse, deleteProperty: refuse, setPrototypeOf: refuse, preventExtensions: refuse,
  getPrototypeOf: () => null, isExtensible: () => true,
});

/** An object whose members come from make(key), listed under names; any other key is tried too. */
function listing(label, names, make) {
  return new ProxyCtor(create(null), { __proto__: traps, label, names, make, listed: undefined, made: none });
}

function toolFunction(path) {
  const part = pathPart(path);
  return named((...args) => callPath(path, part, args.length > 0 ? args[0] : undefined, args.length, new ErrorCtor()), path);
}

let namespaces = new MapCtor(); // by name, of this run
let lent = new MapCtor();       // what the run made globals
let tools;

// Makes a global of a run, unless a program of the session has put something of its own there.
function lend(name, value, before, goesOn) {
  const own = goesOn ? getOwnPropertyDescriptor(globalThis, name) : undefined;
  if (own !== undefined && !(mapHas(before, name) && own.value === mapGet(before, name))) return;
  global(name, value);
  mapSet(lent, name, value);
}

function makeNamespace(name, members) {
  const ns = listing("tools " + name, members, (m) => toolFunction(name + "." + m));
  mapSet(namespaces, name, ns);
  return ns;
}

/** The namespace of that name, listed or not: the host decides what exists. */
export const namespaceOf = (name) => mapGet(namespaces, name) || makeNamespace(name, list());
export const allTools = () => tools;

/** Makes the globals of a run; all is the record of namespaces that the host sent, goesOn whether there were programs of the session before. */
export function setNamespaces(all, goesOn) {
  const before = lent;
  namespaces = new MapCtor();
  lent = new MapCtor();
  const names = all === undefined ? [] : keys(all);
  for (let i = 0; i < names.length; i++) {
    const members = all[names[i]];
    lend(names[i], makeNamespace(names[i], isArray(members) ? members : list()), before, goesOn);
  }
  mapForEach(before, (value, name) => { // an upstream that is gone
    if (mapHas(lent, name)) return;
    const own = getOwnPropertyDescriptor(globalThis, name);
    if (own !== undefined && own.value === value) deleteProperty(globalThis, name);
  });
  tools = listing("tools", names, namespaceOf);
  if (goesOn) global("callTool", callToolByPath);
  global("tools", tools);
}

const callToolByPath = (path, ...args) => callTool(path, args.length > 0 ? args[0] : undefined, args.length, new ErrorCtor());
global("callTool", callToolByPath);

// search("words", { limit }), or search({ query, limit }) as the tool itself is called.
global("search", function search(query, options) {
  if (query !== null && typeof query === "object") return callTool("biplane.search", query, 1, new ErrorCtor());
  const args = create(null);
  if (options !== null && typeof options === "object") {
    const own = keys(options);
    for (let i = 0; i < own.length; i++) define(args, own[i], options[own[i]], true);
  }
  define(args, "query", query === undefined ? "" : query, true);
  return callTool("biplane.search", args, 1, new ErrorCtor());
});

global("readResult", function readResult(handle, options) {
  const args = create(null);
  define(args, "handle", handle !== null && typeof handle === "object" ? handle.handle : handle, true);
  if (options !== null && typeof options === "object") {
    if (options.offset !== undefined) define(args, "offset", options.offset, true);
    if (options.limit !== undefined) define(args, "limit", options.limit, true);
  }
  return callTool("biplane.result", args, 1, new ErrorCtor());
});

global("emit", function emit(x) {
  if (typeof x === "string" && x !== "" && !startsWith(x, "res_")) mustBeFile(x);
  if (send(x) > 0) return;
  throw new TypeErrorCtor("emit takes an image, audio or resource that a tool returned, or the path of a file, got " +
    (x === null ? "null" : isArray(x) ? "an array without one" : "a " + typeof x));
});

// Emits x; of an array, as a tool may answer, the images and the like, and not the text between them.
function send(x) {
  if (isArray(x)) {
    let sent = 0;
    for (let i = 0; i < x.length; i++) if (typeof x[i] !== "string" || startsWith(x[i], "res_")) sent += send(x[i]);
    return sent;
  }
  const handle = x !== null && typeof x === "object" ? x.handle : x;
  if (typeof handle !== "string" || handle === "") return 0;
  sendEmit(handle);
  return 1;
}
