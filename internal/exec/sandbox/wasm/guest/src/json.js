// JSON encoding and decoding: exact for integers of any size, and defined for every value that a
// program may return.

import {
  BigIntCtor, DateCtor, ErrorCtor, JSONParse, JSONStringify, MapCtor, RangeErrorCtor, SetCtor, TypeErrorCtor, TypedArrayProto, Uint8ArrayCtor, WeakMapCtor, apply,
  base64, bigintToString, create, dataViewBuffer, dataViewBytes, dataViewOffset, dateGetTime, dateToISO, define,
  deleteProperty, exec, functionToString, getOwnPropertyDescriptor, getPrototypeOf, hasOwn, isArray, isFinite, isSafeInteger, keys, list,
  mapDelete, mapForEach, mapGet, mapSet, mapSize, objectToString, push, rawJSON, record, regexpToString, setForEach, slice, symbolToString,
  typedArrayBuffer, typedArrayBytes, typedArrayLength, typedArrayOffset, typedArrayTag, weakGet, weakSet,
} from "./primordials.js";
import { parseJSON, stringifyJSON } from "./fastjson.js";

const longDigits = /\d{16}/;
const integer = /^-?\d+$/;

/**
 * Parses JSON. An integer that a number can't hold becomes a BigInt. With long false, the text has
 * no long runs of digits.
 */
export function parse(text, long) {
  if (long === false || exec(longDigits, text) === null) return parseJSON(text);
  return JSONParse(text, (key, value, context) =>
    typeof value === "number" && !isSafeInteger(value) && exec(integer, context.source) !== null ? BigIntCtor(context.source) : value);
}

const maxDepth = 128; // nesting depth on the slow path
const maxNodes = 500_000;
const maxIterator = 10_000;

// --- values that JSON.stringify doesn't handle well ---

function bytesOf(buffer, offset, length) { return new Uint8ArrayCtor(buffer, offset, length); }

// Bytes become base64 text, as in Python; an array of other numbers becomes a list.
function typedArray(v) {
  const tag = typedArrayTag(v), n = typedArrayLength(v);
  if (tag === "Uint8Array" || tag === "Uint8ClampedArray") return base64(bytesOf(typedArrayBuffer(v), typedArrayOffset(v), typedArrayBytes(v)));
  const out = [];
  for (let i = 0; i < n; i++) define(out, i, v[i], true);
  return out;
}

function arrayBuffer(v) { return base64(new Uint8ArrayCtor(v)); }

function dataView(v) { return base64(bytesOf(dataViewBuffer(v), dataViewOffset(v), dataViewBytes(v))); }

function mapValue(v) {
  let strings = true;
  mapForEach(v, (x, k) => { if (typeof k !== "string") strings = false; });
  if (strings) {
    const out = {};
    mapForEach(v, (x, k) => { define(out, k, x, true); });
    return out;
  }
  const out = [];
  mapForEach(v, (x, k) => { define(out, out.length, [k, x], true); });
  return out;
}

function setValue(v) {
  const out = [];
  setForEach(v, (x) => { define(out, out.length, x, true); });
  return out;
}

function errorValue(v) {
  const out = {};
  define(out, "name", v.name, true);
  define(out, "message", v.message, true);
  const own = keys(v);
  for (let i = 0; i < own.length; i++) define(out, own[i], v[own[i]], true);
  const cause = getOwnPropertyDescriptor(v, "cause");
  if (cause !== undefined) define(out, "cause", cause.value, true);
  const errors = getOwnPropertyDescriptor(v, "errors");
  if (errors !== undefined) define(out, "errors", errors.value, true);
  return out;
}

function iteratorValue(next) {
  return (v) => {
    const out = [];
    while (out.length < maxIterator) {
      const step = apply(next, v, []);
      if (step.done) break;
      define(out, out.length, step.value, true);
    }
    return out;
  };
}

// Promises found while a value is encoded. Their results are inserted in the next round.
const objectPrototype = Object.prototype, arrayPrototype = Array.prototype;
const results = new WeakMapCtor();
let met = null;
let complaint; // the error for a value that can't be an argument

// With met === null, arguments of a tool call are encoded. A value without a JSON form is then an
// error, never a replacement.
function complain(text) { throw (complaint = new TypeErrorCtor(text)); }

function promiseValue(p) {
  const r = weakGet(results, p);
  if (r !== undefined) return r.value;
  if (met === null) complain("a promise can't be an argument: await it first");
  push(met, p);
  return null;
}

/** Records the result of a promise found earlier. */
export function resolved(p, value) { weakSet(results, p, record({ value })); }

const iteratorProtos = [new MapCtor().values(), new SetCtor().values(), [].values()];
const extra = list();
function teach(proto, convert) {
  push(extra, record({ proto, convert, toJSON: function toJSON() { return convert(this); }, had: undefined }));
}
teach(MapCtor.prototype, mapValue);
teach(SetCtor.prototype, setValue);
teach(ErrorCtor.prototype, errorValue);
teach(TypedArrayProto, typedArray);
teach(ArrayBuffer.prototype, arrayBuffer);
teach(DataView.prototype, dataView);
teach(RegExp.prototype, regexpToString);
teach(Promise.prototype, promiseValue);
teach(BigInt.prototype, (v) => rawJSON(bigintToString(v)));
for (let i = 0; i < iteratorProtos.length; i++) {
  const proto = getPrototypeOf(iteratorProtos[i]);
  teach(proto, iteratorValue(proto.next));
}

/** Adds a conversion for one more class; for the web APIs of the runtime. */
export { teach };

let nested = 0;

/**
 * Reports whether the runtime, rather than the program's own JSON.stringify, is encoding a value.
 */
export const writing = () => nested > 0;

// Installs a toJSON method on each class during one native stringify, so that plain data is encoded
// at native speed. A program's own toJSON takes precedence.
function lend() {
  if (nested++ > 0) return true;
  let all = true;
  for (let i = 0; i < extra.length; i++) {
    const x = extra[i];
    x.had = getOwnPropertyDescriptor(x.proto, "toJSON");
    if (x.had === undefined && !define(x.proto, "toJSON", x.toJSON)) all = false;
  }
  return all;
}

function giveBack() {
  if (--nested > 0) return;
  for (let i = 0; i < extra.length; i++) {
    const x = extra[i];
    if (x.had === undefined) deleteProperty(x.proto, "toJSON");
    x.had = undefined;
  }
}

// --- slow path: cycles, throwing getters, NaN, frozen prototypes ---

function describe(v) {
  if (typeof v === "symbol") return symbolToString(v);
  if (typeof v !== "function") return undefined;
  let name = "", text = "";
  try { name = v.name; } catch { /* a proxy */ }
  try { text = apply(functionToString, v, []); } catch { /* a proxy */ }
  const kind = slice(text, 0, 5) === "class" ? "class" : "function";
  return "[" + kind + (typeof name === "string" && name !== "" ? " " + name : "") + "]";
}

function plainNumber(v) { return isFinite(v) ? v : v !== v ? "NaN" : v > 0 ? "Infinity" : "-Infinity"; }

function tame(v, key, path, seen, budget) {
  switch (typeof v) {
    case "number":
      if (met === null && !isFinite(v)) complain("an argument can't hold " + plainNumber(v) + ": " + path);
      return plainNumber(v);
    case "bigint": return rawJSON(bigintToString(v));
    case "symbol": case "function": return undefined;
    case "object": break;
    default: return v;
  }
  if (v === null) return null;
  if (--budget.nodes < 0) throw new RangeErrorCtor("the value is too large");
  const at = mapGet(seen, v);
  if (at !== undefined) {
    if (met === null) complain("an argument can't hold itself: " + path + " is " + at);
    return "[Circular: " + at + "]";
  }
  if (mapSize(seen) >= maxDepth && met === null) complain("an argument can't be nested more than " + maxDepth + " levels deep: " + slice(path, 0, 60) + "…");
  if (mapSize(seen) >= maxDepth) return isArray(v) ? "[Array: too deep]" : "[Object: too deep]";
  mapSet(seen, v, path);
  try {
    return tameObject(v, key, path, seen, budget);
  } catch (e) {
    if (budget.nodes < 0 || met === null) throw e;
    return "[threw: " + message(e) + "]";
  } finally {
    mapDelete(seen, v);
  }
}

function message(e) {
  try {
    if (e !== null && typeof e === "object" && typeof e.message === "string") return e.message;
    return typeof e === "string" ? e : objectToString(e);
  } catch { return "unknown"; }
}

function tameObject(v, key, path, seen, budget) {
  if (typeof v.toJSON === "function" && !isLent(v.toJSON)) return tame(v.toJSON(key), key, path, seen, budget);
  for (let i = 0; i < extra.length; i++) {
    let c;
    try {
      if (!instance(v, extra[i].proto)) continue;
      c = extra[i].convert(v);
    } catch (e) { if (e === complaint) throw e; continue; }
    if (c === null || typeof c !== "object") return c;
    return isArray(c) || getPrototypeOf(c) === objectPrototype ? tameMembers(c, path, seen, budget) : c;
  }
  const boxed = objectToString(v);
  if (boxed === "[object Date]" || v instanceof DateCtor) return isFinite(dateGetTime(v)) ? dateToISO(v) : null;
  if (boxed === "[object Number]" || boxed === "[object String]" || boxed === "[object Boolean]") {
    const p = v.valueOf();
    if (typeof p !== "object") return tame(p, key, path, seen, budget);
  }
  return tameMembers(v, path, seen, budget);
}

function isLent(f) {
  for (let i = 0; i < extra.length; i++) if (extra[i].toJSON === f) return true;
  return false;
}

function instance(v, proto) {
  for (let p = getPrototypeOf(v), i = 0; p !== null && i < 16; p = getPrototypeOf(p), i++) if (p === proto) return true;
  return false;
}

const identifier = /^[A-Za-z_$][\w$]*$/;

function tameMembers(v, path, seen, budget) {
  if (isArray(v)) {
    const out = [], n = v.length;
    for (let i = 0; i < n; i++) {
      const x = member(v, i, path + "[" + i + "]", seen, budget);
      define(out, i, x === undefined ? null : x, true);
      if (x === undefined && --budget.nodes < 0) throw new RangeErrorCtor("the value is too large");
    }
    return out;
  }
  const out = create(null), own = keys(v);
  for (let i = 0; i < own.length; i++) {
    const k = own[i];
    const x = member(v, k, path + (exec(identifier, k) !== null ? "." + k : "[" + JSONStringify(k) + "]"), seen, budget);
    if (x !== undefined) define(out, k, x, true);
  }
  return out;
}

function member(v, k, path, seen, budget) {
  let x;
  try { x = v[k]; } catch (e) {
    if (met === null) throw e;
    return "[threw: " + message(e) + "]";
  }
  return tame(x, k, path, seen, budget);
}

// Reports whether plain data holds a number without a JSON form. Called only if the text contains a
// null.
function hasOddNumber(v, depth) {
  if (typeof v === "number") return !isFinite(v);
  if (v === null || typeof v !== "object" || depth > maxDepth) return false;
  const own = isArray(v) ? null : keys(v);
  const n = own === null ? v.length : own.length;
  for (let i = 0; i < n; i++) {
    const d = getOwnPropertyDescriptor(v, own === null ? i : own[i]);
    if (d !== undefined && hasOddNumber(d.value, depth + 1)) return true;
  }
  return false;
}

const maxPlain = 32; // members that isPlain inspects before it stops

// Reports whether JSON.stringify alone encodes v correctly: v has only a few members of the
// plainest kinds. No code of the program runs, except the traps of a proxy.
function isPlain(v, budget) {
  switch (typeof v) {
    case "string": case "boolean": case "undefined": return true;
    case "number": return isFinite(v);
    case "object": break;
    default: return false;
  }
  if (v === null) return true;
  const array = isArray(v), proto = getPrototypeOf(v);
  if (proto !== (array ? arrayPrototype : objectPrototype) && proto !== null || "toJSON" in v) return false;
  const own = array ? null : keys(v), n = array ? v.length : own.length;
  if ((budget.left -= n) < 0) return false;
  for (let i = 0; i < n; i++) {
    const d = getOwnPropertyDescriptor(v, array ? i : own[i]);
    if (d === undefined || !hasOwn(d, "value") || !isPlain(d.value, budget)) return false;
  }
  return true;
}

const maxFlat = 16;   // members of an object that flat encodes
const maxNames = 256; // cached encoded member names
let names = create(null), named = 0;

function nameOf(k) {
  if (k.length > 64) return JSONStringify(k) + ":";
  if (++named > maxNames) { names = create(null); named = 1; }
  return (names[k] = JSONStringify(k) + ":");
}

// Encodes an object with a few numbers, strings, booleans and nulls, as most arguments are;
// otherwise returns undefined. It is twice as fast as isPlain and JSON.stringify, and reads each
// member once.
function flat(v) {
  if (v === null || typeof v !== "object" || isArray(v)) return undefined;
  const proto = getPrototypeOf(v);
  if (proto !== objectPrototype && proto !== null || "toJSON" in v) return undefined;
  const own = keys(v), n = own.length;
  if (n > maxFlat) return undefined;
  let out = "{";
  for (let i = 0; i < n; i++) {
    const k = own[i], x = v[k];
    let text;
    switch (typeof x) {
      case "number": if (x - x !== 0) return undefined; text = x; break;
      case "string": text = JSONStringify(x); break;
      case "boolean": text = x; break;
      case "undefined": continue;
      default: if (x !== null) return undefined; text = x;
    }
    const name = names[k];
    out += (out === "{" ? "" : ",") + (name !== undefined ? name : nameOf(k)) + text;
  }
  return out + "}";
}

function simple(v) {
  try {
    const text = flat(v);
    return text === undefined && isPlain(v, { __proto__: null, left: maxPlain }) ? stringifyJSON(v) : text;
  } catch { return undefined; }
}

const nullToken = /[:,[]null/;

/**
 * Encodes any value as JSON text; undefined for undefined. Pending promises are appended to
 * promises; without that list, a promise is an error.
 */
export function serialize(value, promises) {
  if (typeof value === "number") value = plainNumber(value);
  else if (typeof value === "function" || typeof value === "symbol") value = describe(value);
  if (value === undefined) return undefined;
  const easy = simple(value);
  if (easy !== undefined) return easy;
  const outer = met;
  met = promises === undefined ? null : promises;
  const all = lend();
  try {
    let text;
    if (all) {
      try {
        text = stringifyJSON(value);
      } catch (e) {
        if (e === complaint || message(e) === "out of memory") throw e;
      }
      if (text !== undefined && (exec(nullToken, text) === null || !odd(value))) return text;
      if (promises !== undefined) promises.length = 0;
    }
    return JSONStringify(tame(value, "", "$", new MapCtor(), record({ nodes: maxNodes })));
  } finally {
    giveBack();
    met = outer;
  }
}

function odd(value) {
  try { return hasOddNumber(value, 0); } catch { return true; }
}
