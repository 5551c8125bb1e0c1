// Copies of the builtins that the runtime uses, made before any program runs. A program may
// overwrite every builtin and prototype without affecting the runtime.
//
// Rules for the other files: call methods through these copies. Never iterate with for-of, spread
// or array patterns. Keep internal lists in list(). Create descriptors with a null prototype. Read
// fields of a program's objects inside a try.

const { bind, call } = Function.prototype;

/**
 * uncurry(f)(self, ...args) is f.call(self, ...args), even if Function.prototype.call is
 * overwritten.
 */
export const uncurry = bind.bind(call);

export const { apply, defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
export const { create, freeze, keys, setPrototypeOf } = Object;
export const isArray = Array.isArray;
export const { parse: JSONParse, stringify: JSONStringify, rawJSON } = JSON;
export const { max } = Math;
export const { isSafeInteger, isFinite } = Number;
export const PromiseCtor = Promise;
export const MapCtor = Map;
export const SetCtor = Set;
export const WeakMapCtor = WeakMap;
export const ProxyCtor = Proxy;
export const DateCtor = Date;
export const ErrorCtor = Error;
export const TypeErrorCtor = TypeError;
export const RangeErrorCtor = RangeError;
export const StringCtor = String;
export const NumberCtor = Number;
export const BigIntCtor = BigInt;
export const Uint8ArrayCtor = Uint8Array;
export const Int32ArrayCtor = Int32Array;
export const fromCharCode = String.fromCharCode;
export const indirectEval = eval;

export const objectToString = uncurry(Object.prototype.toString);
export const hasOwn = uncurry(Object.prototype.hasOwnProperty);
export const functionToString = Function.prototype.toString;

export const charAt = uncurry(String.prototype.charAt);
export const charCodeAt = uncurry(String.prototype.charCodeAt);
export const isWellFormed = uncurry(String.prototype.isWellFormed);
export const codePointAt = uncurry(String.prototype.codePointAt);
export const indexOf = uncurry(String.prototype.indexOf);
export const lastIndexOf = uncurry(String.prototype.lastIndexOf);
export const slice = uncurry(String.prototype.slice);
export const startsWith = uncurry(String.prototype.startsWith);
export const endsWith = uncurry(String.prototype.endsWith);
export const padStart = uncurry(String.prototype.padStart);
export const padEnd = uncurry(String.prototype.padEnd);
export const repeat = uncurry(String.prototype.repeat);
export const toLowerCase = uncurry(String.prototype.toLowerCase);
export const toUpperCase = uncurry(String.prototype.toUpperCase);
export const trim = uncurry(String.prototype.trim);

export const RegExpCtor = RegExp;
export const exec = uncurry(RegExp.prototype.exec);
export const regexpTest = (r, s) => exec(r, s) !== null;
export const regexpToString = uncurry(RegExp.prototype.toString);

export const then = uncurry(Promise.prototype.then);

export const mapGet = uncurry(Map.prototype.get);
export const mapSet = uncurry(Map.prototype.set);
export const mapHas = uncurry(Map.prototype.has);
export const mapDelete = uncurry(Map.prototype.delete);
export const mapForEach = uncurry(Map.prototype.forEach);
export const mapSize = uncurry(getOwnPropertyDescriptor(Map.prototype, "size").get);
export const setForEach = uncurry(Set.prototype.forEach);
export const setAdd = uncurry(Set.prototype.add);
export const setHas = uncurry(Set.prototype.has);
export const weakGet = uncurry(WeakMap.prototype.get);
export const weakSet = uncurry(WeakMap.prototype.set);

export const numberToFixed = uncurry(Number.prototype.toFixed);
export const bigintToString = uncurry(BigInt.prototype.toString);
export const symbolToString = uncurry(Symbol.prototype.toString);
export const dateGetTime = uncurry(Date.prototype.getTime);
export const dateToISO = uncurry(Date.prototype.toISOString);

const typedArrayProto = getPrototypeOf(Uint8Array.prototype);
export const TypedArrayProto = typedArrayProto;
export const typedArrayTag = uncurry(getOwnPropertyDescriptor(typedArrayProto, Symbol.toStringTag).get);
export const typedArrayLength = uncurry(getOwnPropertyDescriptor(typedArrayProto, "length").get);
export const typedArrayBuffer = uncurry(getOwnPropertyDescriptor(typedArrayProto, "buffer").get);
export const typedArrayOffset = uncurry(getOwnPropertyDescriptor(typedArrayProto, "byteOffset").get);
export const typedArrayBytes = uncurry(getOwnPropertyDescriptor(typedArrayProto, "byteLength").get);
export const arrayBufferBytes = uncurry(getOwnPropertyDescriptor(ArrayBuffer.prototype, "byteLength").get);
export const dataViewBuffer = uncurry(getOwnPropertyDescriptor(DataView.prototype, "buffer").get);
export const dataViewOffset = uncurry(getOwnPropertyDescriptor(DataView.prototype, "byteOffset").get);
export const dataViewBytes = uncurry(getOwnPropertyDescriptor(DataView.prototype, "byteLength").get);

/** The engine's original accessor of Error.prototype.stack. */
export const engineStack = getOwnPropertyDescriptor(Error.prototype, "stack");
export const engineCaptureStackTrace = Error.captureStackTrace;

/** Encodes a Uint8Array as base64. */
export const base64 = uncurry(Uint8Array.prototype.toBase64);

/** Creates a list without a prototype: it has only indexes and a length. */
export function list() { return setPrototypeOf([], null); }

export function push(l, v) { l[l.length] = v; }

export function join(l, sep) {
  let out = "";
  for (let i = 0; i < l.length; i++) out += (i ? sep : "") + l[i];
  return out;
}

export function split(s, sep) {
  const out = list();
  let from = 0;
  for (;;) {
    const at = indexOf(s, sep, from);
    if (at < 0) break;
    push(out, slice(s, from, at));
    from = at + sep.length;
  }
  push(out, slice(s, from));
  return out;
}

/** record({a: 1}) creates a descriptor, handler or options object without a prototype. */
export function record(o) { return setPrototypeOf(o, null); }

/** Defines an own property; enumerable only if requested. */
export function define(o, name, value, enumerable = false) {
  return defineProperty(o, name, record({ value, enumerable, writable: true, configurable: true }));
}

/**
 * Defines a global as the engine defines its own, with a clean name instead of the bundle's short
 * one.
 */
export function global(name, value) { define(globalThis, name, typeof value === "function" ? named(value, name) : value); }

/** Sets a function's name for stack traces and inspection. */
export function named(f, name) {
  defineProperty(f, "name", record({ value: name, configurable: true }));
  return f;
}

/**
 * Creates a Map whose methods the runtime calls directly, a third cheaper than through copies.
 * Programs must never reach it.
 */
export function privateMap() {
  const m = new MapCtor();
  define(m, "get", mapGetMethod);
  define(m, "set", mapSetMethod);
  define(m, "delete", mapDeleteMethod);
  return m;
}

/** Creates a WeakMap of the same kind. */
export function privateWeakMap() {
  const m = new WeakMapCtor();
  define(m, "get", weakGetMethod);
  define(m, "set", weakSetMethod);
  return m;
}
const { get: weakGetMethod, set: weakSetMethod } = WeakMap.prototype;
const { get: mapGetMethod, set: mapSetMethod, delete: mapDeleteMethod } = Map.prototype;

/**
 * Calls ok or bad once v has settled; v may be any value. Uses nothing that a program can change.
 */
export function settled(v, ok, bad) {
  try {
    if (v !== null && typeof v === "object" && objectToString(v) === "[object Promise]") {
      plain(v);
      try { then(v, ok, bad); return; } catch { /* it only says that it is one */ }
    }
    const p = new PromiseCtor((resolve) => { resolve(v); });
    plain(p);
    then(p, ok, bad);
  } catch (e) { bad(e); }
}

// Makes p.then() return a promise of the engine's own class.
function plain(p) { defineProperty(p, "constructor", record({ value: undefined, configurable: true, writable: true })); }

export const ObjectPrototype = Object.prototype;
export const ArrayPrototype = Array.prototype;
export const ArrayBufferCtor = ArrayBuffer;
export const typedArraySlice = uncurry(Uint8Array.prototype.slice);
export const MathObject = Math;
export const typedArraySet = uncurry(Uint8Array.prototype.set);
export const typedArraySubarray = uncurry(Uint8Array.prototype.subarray);
export const nativeFromBase64 = Uint8Array.fromBase64;
export const nativeFromHex = Uint8Array.fromHex;
export const nativeToHex = uncurry(Uint8Array.prototype.toHex);
export const replace = uncurry(String.prototype.replace);
export const generatorNext = uncurry(getPrototypeOf(function* () {}.prototype).next);
export const generatorThrow = uncurry(getPrototypeOf(function* () {}.prototype).throw);
