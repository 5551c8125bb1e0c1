// TextEncoder and TextDecoder (https://encoding.spec.whatwg.org) for UTF-8, UTF-16 and the
// single-byte Latin encodings.

import {
  ArrayBufferCtor, MapCtor, RangeErrorCtor, StringCtor, TypeErrorCtor, Uint8ArrayCtor, arrayBufferBytes, charCodeAt, create, dataViewBuffer,
  dataViewBytes, dataViewOffset, define, fromCharCode, global, mapGet, mapSet, slice, toLowerCase, trim, typedArrayBuffer, typedArrayBytes, typedArrayOffset,
  typedArraySlice, typedArrayTag,
} from "./primordials.js";

// Encodes s into out and returns [code units read, bytes written].
function encodeInto(s, out, room) {
  let at = 0, i = 0;
  const n = s.length;
  for (; i < n; i++) {
    let c = charCodeAt(s, i);
    if (c < 0x80) {
      if (at + 1 > room) break;
      out[at++] = c;
      continue;
    }
    let pair = false;
    if (c >= 0xd800 && c <= 0xdfff) {
      const d = c < 0xdc00 && i + 1 < n ? charCodeAt(s, i + 1) : 0;
      if (d >= 0xdc00 && d <= 0xdfff) { c = 0x10000 + ((c - 0xd800) << 10) + (d - 0xdc00); pair = true; } else c = 0xfffd;
    }
    const size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (at + size > room) break;
    if (size === 2) out[at++] = 0xc0 | (c >> 6);
    else {
      if (size === 3) out[at++] = 0xe0 | (c >> 12);
      else { out[at++] = 0xf0 | (c >> 18); out[at++] = 0x80 | ((c >> 12) & 63); }
      out[at++] = 0x80 | ((c >> 6) & 63);
    }
    out[at++] = 0x80 | (c & 63);
    if (pair) i++;
  }
  return { __proto__: null, read: i, written: at };
}

export function encodeUTF8(s) {
  const out = new Uint8ArrayCtor(s.length * 3);
  return typedArraySlice(out, 0, encodeInto(s, out, s.length * 3).written);
}

class TextEncoder {
  get encoding() { return "utf-8"; }
  encode(s) { return s === undefined ? new Uint8ArrayCtor(0) : encodeUTF8(StringCtor(s)); }
  encodeInto(s, out) {
    const r = encodeInto(StringCtor(s), out, typedArrayBytes(out));
    return { read: r.read, written: r.written };
  }
}

const labels = new MapCtor();
for (const [name, all] of [
  ["utf-8", "utf8 utf-8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8"],
  ["utf-16le", "utf-16le utf-16 ucs-2 iso-10646-ucs-2 unicode unicodefeff csunicode"],
  ["utf-16be", "utf-16be unicodefffe"],
  ["windows-1252", "windows-1252 latin1 latin-1 iso-8859-1 iso8859-1 iso88591 iso_8859-1 l1 ascii us-ascii ansi_x3.4-1968 cp1252 cp819 ibm819 x-cp1252 binary"],
]) for (const label of all.split(" ")) mapSet(labels, label, name);

// Code points for the bytes 0x80 to 0x9f of windows-1252.
const c1 = "\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178";

function bytesOf(input) {
  if (input === undefined) return new Uint8ArrayCtor(0);
  if (typeof input === "object" && input !== null) {
    if (typedArrayTag(input) !== undefined) return new Uint8ArrayCtor(typedArrayBuffer(input), typedArrayOffset(input), typedArrayBytes(input));
    try { return new Uint8ArrayCtor(dataViewBuffer(input), dataViewOffset(input), dataViewBytes(input)); } catch { /* not one */ }
    try { arrayBufferBytes(input); return new Uint8ArrayCtor(input); } catch { /* not one */ }
    if (input instanceof ArrayBufferCtor) return new Uint8ArrayCtor(input);
  }
  throw new TypeErrorCtor("decode takes an ArrayBuffer or a view of one");
}

function malformed(name) {
  const e = new TypeErrorCtor("the data is not valid " + name);
  define(e, "code", "ERR_ENCODING_INVALID_ENCODED_DATA", true);
  return e;
}

// Decodes UTF-8 with the state machine of the standard, so that invalid sequences yield as many
// U+FFFD as in browsers. state is {point, needed, seen, low, high}.
function decodeUTF8(bytes, n, state, fatal, flush) {
  let out = "", part = "";
  for (let i = 0; i < n; i++) {
    const b = bytes[i];
    if (part.length > 4096) { out += part; part = ""; }
    if (state.needed === 0) {
      if (b < 0x80) part += fromCharCode(b);
      else if (b >= 0xc2 && b <= 0xdf) { state.needed = 1; state.point = b & 31; }
      else if (b >= 0xe0 && b <= 0xef) {
        if (b === 0xe0) state.low = 0xa0;
        if (b === 0xed) state.high = 0x9f;
        state.needed = 2; state.point = b & 15;
      } else if (b >= 0xf0 && b <= 0xf4) {
        if (b === 0xf0) state.low = 0x90;
        if (b === 0xf4) state.high = 0x8f;
        state.needed = 3; state.point = b & 7;
      } else if (fatal) throw malformed("utf-8");
      else part += "\ufffd";
      continue;
    }
    if (b < state.low || b > state.high) {
      clear(state);
      if (fatal) throw malformed("utf-8");
      part += "\ufffd";
      i--;
      continue;
    }
    state.low = 0x80; state.high = 0xbf;
    state.point = (state.point << 6) | (b & 63);
    if (++state.seen < state.needed) continue;
    const c = state.point;
    part += c < 0x10000 ? fromCharCode(c) : fromCharCode(0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 1023));
    clear(state);
  }
  out += part;
  if (flush && state.needed !== 0) {
    clear(state);
    if (fatal) throw malformed("utf-8");
    out += "\ufffd";
  }
  return out;
}

function clear(state) { state.point = state.needed = state.seen = 0; state.low = 0x80; state.high = 0xbf; state.odd = -1; state.lead = 0; }

function decodeUTF16(bytes, n, state, fatal, flush, big) {
  let out = "", part = "";
  const wrong = () => { if (fatal) { clear(state); throw malformed("utf-16"); } part += "\ufffd"; };
  for (let i = 0; i < n; i++) {
    if (state.odd < 0) { state.odd = bytes[i]; continue; }
    const c = big ? (state.odd << 8) | bytes[i] : (bytes[i] << 8) | state.odd;
    state.odd = -1;
    if (state.lead) {
      const lead = state.lead;
      state.lead = 0;
      if (c >= 0xdc00 && c <= 0xdfff) { part += fromCharCode(lead, c); continue; }
      wrong();
    }
    if (c >= 0xd800 && c < 0xdc00) state.lead = c;
    else if (c >= 0xdc00 && c <= 0xdfff) wrong();
    else part += fromCharCode(c);
    if (part.length > 4096) { out += part; part = ""; }
  }
  if (flush && (state.odd >= 0 || state.lead)) { clear(state); wrong(); }
  return out + part;
}

function decodeLatin(bytes, n) {
  let out = "", part = "";
  for (let i = 0; i < n; i++) {
    const b = bytes[i];
    part += b >= 0x80 && b < 0xa0 ? c1[b - 0x80] : fromCharCode(b);
    if (part.length > 4096) { out += part; part = ""; }
  }
  return out + part;
}

class TextDecoder {
  #name; #fatal; #ignoreBOM; #state; #fresh = true;
  constructor(label = "utf-8", options) {
    this.#name = mapGet(labels, toLowerCase(trim(StringCtor(label))));
    if (this.#name === undefined) throw new RangeErrorCtor("TextDecoder: unknown encoding " + StringCtor(label) + ": there are utf-8, utf-16le, utf-16be and latin1");
    this.#fatal = options !== undefined && options !== null && !!options.fatal;
    this.#ignoreBOM = options !== undefined && options !== null && !!options.ignoreBOM;
    this.#state = create(null);
    clear(this.#state);
  }
  get encoding() { return this.#name; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#ignoreBOM; }
  decode(input, options) {
    const flush = !(options !== undefined && options !== null && options.stream);
    const bytes = bytesOf(input), n = typedArrayBytes(bytes), s = this.#state;
    let text;
    if (this.#name === "utf-8") text = decodeUTF8(bytes, n, s, this.#fatal, flush);
    else if (this.#name === "windows-1252") text = decodeLatin(bytes, n);
    else text = decodeUTF16(bytes, n, s, this.#fatal, flush, this.#name === "utf-16be");
    if (this.#fresh && text !== "") {
      this.#fresh = false;
      if (!this.#ignoreBOM && this.#name !== "windows-1252" && charCodeAt(text, 0) === 0xfeff) text = slice(text, 1);
    }
    if (flush) this.#fresh = true;
    return text;
  }
}

/** Decodes UTF-8 bytes; replaces invalid sequences and keeps a byte order mark. */
export function decodeText(bytes) {
  const state = create(null);
  clear(state);
  return decodeUTF8(bytes, typedArrayBytes(bytes), state, false, true);
}

global("TextEncoder", TextEncoder);
global("TextDecoder", TextDecoder);
