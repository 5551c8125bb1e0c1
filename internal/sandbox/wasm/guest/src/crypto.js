// Randomness and clocks, both from the host: nothing of them is in the golden image.

import {
  MathObject, RangeErrorCtor, TypeErrorCtor, Uint8ArrayCtor, create, define, global, indexOf, named, slice,
  typedArrayBuffer, typedArrayBytes, typedArrayOffset, typedArrayTag,
} from "./primordials.js";
import { now, random } from "./host.js";

const hex = "0123456789abcdef";
const nibble = (s, i) => indexOf(hex, s[i]);

function word(s, i) {
  let w = 0;
  for (let j = 0; j < 8; j++) w = (w << 4) | nibble(s, 8 * i + j);
  return w;
}

// Math.random: sfc32 by Chris Doty-Humphrey, seeded by the host once a sandbox.
let a = 0, b = 0, c = 0, d = 1, seeded = false;

function next() {
  const t = (a + b | 0) + d | 0;
  d = d + 1 | 0;
  a = b ^ b >>> 9;
  b = c + (c << 3) | 0;
  c = (c << 21 | c >>> 11) + t | 0;
  return t >>> 0;
}

/** Forgets the seed and starts the clock; in every fresh sandbox. */
export function reseed() {
  seeded = false;
  origin = now();
}

define(MathObject, "random", named(() => {
  if (!seeded) {
    const s = random(12);
    a = word(s, 0); b = word(s, 1); c = word(s, 2); d = 1;
    for (let i = 0; i < 12; i++) next();
    seeded = true;
  }
  return (next() * 2097152 + (next() >>> 11)) / 9007199254740992;
}, "random"));

const crypto = create(null);
const most = 1024; // bytes that the host gives at once
const integers = " Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array BigInt64Array BigUint64Array ";

define(crypto, "getRandomValues", named((view) => {
  const tag = typedArrayTag(view);
  if (tag === undefined || indexOf(integers, " " + tag + " ") < 0) throw new TypeErrorCtor("getRandomValues takes a typed array of integers");
  const n = typedArrayBytes(view);
  if (n > 65536) throw new RangeErrorCtor("getRandomValues gives at most 65536 bytes at once, asked for " + n);
  const bytes = new Uint8ArrayCtor(typedArrayBuffer(view), typedArrayOffset(view), n);
  let s = "";
  for (let i = 0; i < n; i++) {
    const at = i % most;
    if (at === 0) s = random(n - i < most ? n - i : most);
    bytes[i] = nibble(s, 2 * at) << 4 | nibble(s, 2 * at + 1);
  }
  return view;
}, "getRandomValues"), true);

define(crypto, "randomUUID", named(() => {
  const s = random(16);
  return slice(s, 0, 8) + "-" + slice(s, 8, 12) + "-4" + slice(s, 13, 16) + "-" + hex[8 + (nibble(s, 16) & 3)] + slice(s, 17, 20) + "-" + slice(s, 20, 32);
}, "randomUUID"), true);
define(crypto, Symbol.toStringTag, "Crypto");
global("crypto", crypto);

let origin = 0;
const performance = create(null);
define(performance, "now", named(() => now() - origin, "now"), true);
Object.defineProperty(performance, "timeOrigin", { get: () => origin, enumerable: true, configurable: true });
define(performance, "mark", function mark() {}, true);
define(performance, "measure", function measure() {}, true);
define(performance, Symbol.toStringTag, "Performance");
global("performance", performance);
