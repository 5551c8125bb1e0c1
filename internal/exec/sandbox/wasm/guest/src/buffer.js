// Buffer, as far as programs need it to convert between bytes and text. Reading a file returns one.

import {
  StringCtor, TypeErrorCtor, Uint8ArrayCtor, arrayBufferBytes, base64, charCodeAt, define, exec, fromCharCode, global, isArray,
  nativeFromBase64, nativeFromHex, nativeToHex, record, replace, setPrototypeOf, slice, toLowerCase, typedArrayBuffer, typedArrayBytes, typedArrayLength,
  typedArrayOffset, typedArraySet, typedArraySlice, typedArraySubarray, typedArrayTag,
} from "./primordials.js";
import { writing } from "./json.js";
import { decodeText, encodeUTF8 } from "./encoding.js";

const aliases = record({
  utf8: "utf8", "utf-8": "utf8", base64: "base64", base64url: "base64url", hex: "hex", latin1: "latin1", binary: "latin1", ascii: "ascii",
  ucs2: "utf16le", "ucs-2": "utf16le", utf16le: "utf16le", "utf-16le": "utf16le",
});

/** Returns the canonical name of an encoding; throws if the encoding is unknown. */
export function encodingName(name) {
  const n = name === undefined || name === null ? "utf8" : typeof name === "string" ? aliases[toLowerCase(name)] : undefined;
  if (n !== undefined) return n;
  const e = new TypeErrorCtor("Unknown encoding: " + StringCtor(name));
  define(e, "code", "ERR_UNKNOWN_ENCODING", true);
  throw e;
}

const notBase64 = /[^A-Za-z0-9+/]/g, dash = /-/g, underscore = /_/g, pairs = /^(?:[0-9a-fA-F]{2})*/;

function fromBase64(s) {
  s = replace(replace(replace(s, dash, "+"), underscore, "/"), notBase64, "");
  if (s.length % 4 === 1) s = slice(s, 0, -1);
  return nativeFromBase64(s);
}

/** Encodes a string as bytes. */
export function encode(s, encoding) {
  switch (encodingName(encoding)) {
    case "utf8": return encodeUTF8(s);
    case "base64": case "base64url": return fromBase64(s);
    case "hex": return nativeFromHex(exec(pairs, s)[0]);
    case "utf16le": {
      const out = new Uint8ArrayCtor(s.length * 2);
      for (let i = 0; i < s.length; i++) { const c = charCodeAt(s, i); out[2 * i] = c; out[2 * i + 1] = c >> 8; }
      return out;
    }
  }
  const out = new Uint8ArrayCtor(s.length);
  for (let i = 0; i < s.length; i++) out[i] = charCodeAt(s, i);
  return out;
}

/** Decodes a Uint8Array to a string. */
export function decode(bytes, encoding) {
  const n = typedArrayLength(bytes);
  const name = encodingName(encoding);
  switch (name) {
    case "utf8": return decodeText(bytes);
    case "hex": return nativeToHex(bytes);
    case "base64": return base64(bytes);
    case "base64url": return urlSafe(base64(bytes));
  }
  let out = "", part = "";
  const wide = name === "utf16le", mask = name === "ascii" ? 0x7f : 0xff;
  for (let i = 0; i + (wide ? 1 : 0) < n; i += wide ? 2 : 1) {
    part += fromCharCode(wide ? bytes[i] | bytes[i + 1] << 8 : bytes[i] & mask);
    if (part.length === 4096) { out += part; part = ""; }
  }
  return out + part;
}

const plus = /\+/g, slash = /\//g, padding = /=+$/;
const urlSafe = (s) => replace(replace(replace(s, plus, "-"), slash, "_"), padding, "");

/**
 * Returns a Uint8Array over the bytes of a typed array, DataView or ArrayBuffer; undefined for any
 * other value.
 */
export function viewOf(x) {
  if (x === null || typeof x !== "object") return undefined;
  if (typedArrayTag(x) !== undefined) return new Uint8ArrayCtor(typedArrayBuffer(x), typedArrayOffset(x), typedArrayBytes(x));
  try { arrayBufferBytes(x); return new Uint8ArrayCtor(x); } catch { /* not one */ }
  return x instanceof DataView ? new Uint8ArrayCtor(x.buffer, x.byteOffset, x.byteLength) : undefined;
}

class Buffer extends Uint8ArrayCtor {
  static from(x, encoding, length) {
    if (typeof x === "string") return asBuffer(encode(x, encoding));
    if (x !== null && typeof x === "object") {
      try { arrayBufferBytes(x); return new Buffer(x, encoding, length); } catch { /* not an ArrayBuffer: its bytes are copied */ }
      if (x.type === "Buffer" && isArray(x.data)) x = x.data;
      if (isArray(x) || typedArrayTag(x) !== undefined || typeof x.length === "number") return asBuffer(new Uint8ArrayCtor(x));
    }
    throw new TypeErrorCtor("Buffer.from takes a string, an array of bytes or a buffer, got " + (x === null ? "null" : "a " + typeof x));
  }
  static of(...bytes) { return asBuffer(new Uint8ArrayCtor(bytes)); }
  static alloc(n, fill, encoding) { const b = new Buffer(n); return fill === undefined ? b : b.fill(fill, 0, n, encoding); }
  static allocUnsafe(n) { return new Buffer(n); }
  static isBuffer(x) { return x instanceof Buffer; }
  static isEncoding(name) { return typeof name === "string" && aliases[toLowerCase(name)] !== undefined; }
  static byteLength(x, encoding) { return typeof x === "string" ? encode(x, encoding).length : viewOf(x).length; }
  static compare(a, b) {
    const n = a.length < b.length ? a.length : b.length;
    for (let i = 0; i < n; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
    return a.length === b.length ? 0 : a.length < b.length ? -1 : 1;
  }
  static concat(all, total) {
    let n = 0;
    for (let i = 0; i < all.length; i++) n += all[i].length;
    const out = new Uint8ArrayCtor(n);
    let at = 0;
    for (let i = 0; i < all.length; i++) { typedArraySet(out, all[i], at); at += all[i].length; }
    return asBuffer(total === undefined || total >= n ? out : typedArraySlice(out, 0, total));
  }
  toString(encoding, start, end) {
    return decode(start === undefined && end === undefined ? this : typedArraySubarray(this, start, end), encoding);
  }
  toJSON() {
    if (writing()) return base64(this);
    const data = [];
    for (let i = 0; i < this.length; i++) define(data, i, this[i], true);
    return { type: "Buffer", data };
  }
  equals(other) { return Buffer.compare(this, other) === 0; }
  compare(other) { return Buffer.compare(this, other); }
  slice(start, end) { return this.subarray(start, end); }
  subarray(start, end) { return asBuffer(typedArraySubarray(this, start, end)); }
  write(text, offset, length, encoding) {
    if (typeof offset === "string") { encoding = offset; offset = 0; length = undefined; }
    if (typeof length === "string") { encoding = length; length = undefined; }
    const from = offset || 0, room = this.length - from, bytes = encode(text, encoding);
    const n = length === undefined || length > room ? room : length;
    const put = bytes.length > n ? typedArraySubarray(bytes, 0, n) : bytes;
    typedArraySet(this, put, from);
    return put.length;
  }
  copy(to, at, start, end) {
    const part = typedArraySubarray(this, start, end), room = to.length - (at || 0);
    const put = part.length > room ? typedArraySubarray(part, 0, room) : part;
    typedArraySet(to, put, at || 0);
    return put.length;
  }
  fill(value, start, end, encoding) {
    if (typeof value !== "string") return super.fill(value, start, end);
    const bytes = encode(value, typeof start === "string" ? start : encoding);
    if (bytes.length === 0) return super.fill(0, start, end);
    const from = typeof start === "number" ? start : 0, to = typeof end === "number" ? end : this.length;
    for (let i = from; i < to; i++) this[i] = bytes[(i - from) % bytes.length];
    return this;
  }
  includes(x, from, encoding) { return this.indexOf(x, from, encoding) >= 0; }
  indexOf(x, from, encoding) {
    if (typeof x === "number") return super.indexOf(x, from);
    const want = typeof x === "string" ? encode(x, encoding) : x;
    for (let i = from || 0; i + want.length <= this.length; i++) {
      let k = 0;
      while (k < want.length && this[i + k] === want[k]) k++;
      if (k === want.length) return i;
    }
    return -1;
  }
}

for (const [name, size] of [["Int8", 1], ["UInt8", 1], ["Int16", 2], ["UInt16", 2], ["Int32", 4], ["UInt32", 4], ["Float", 4], ["Double", 8], ["BigInt64", 8], ["BigUInt64", 8]]) {
  const view = (b) => new DataView(b.buffer, b.byteOffset, b.byteLength);
  const method = name === "Float" ? "Float32" : name === "Double" ? "Float64" : name.replace("UInt", "Uint");
  for (const [end, little] of size === 1 ? [["", true]] : [["LE", true], ["BE", false]]) {
    define(Buffer.prototype, "read" + name + end, function (at) { return view(this)["get" + method](at || 0, little); });
    define(Buffer.prototype, "write" + name + end, function (v, at) { view(this)["set" + method](at || 0, v, little); return (at || 0) + size; });
  }
}
define(Buffer, "poolSize", 0);

/** Wraps the same bytes in a Buffer. */
export function asBuffer(bytes) { return setPrototypeOf(bytes, Buffer.prototype); }

/** Returns the bytes of data to write, given as text or bytes; undefined for any other value. */
export function bytesOf(x, encoding) { return typeof x === "string" ? encode(x, encoding) : viewOf(x); }

global("Buffer", Buffer);
export { Buffer };
