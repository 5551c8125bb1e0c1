// Randomness and clocks. All randomness of a program is derived from the host's seed by ChaCha20
// (RFC 8439) in counter mode: the same seed yields the same numbers, and they can't be predicted
// without the seed.

import {
  ErrorCtor, Int32ArrayCtor, MathObject, RangeErrorCtor, TypeErrorCtor, Uint8ArrayCtor, create, define, global, indexOf, named,
  typedArrayBuffer, typedArrayBytes, typedArrayOffset, typedArrayTag,
} from "./primordials.js";
import { now } from "./host.js";

const key = new Int32ArrayCtor(8), block = new Int32ArrayCtor(16), stream = new Uint8ArrayCtor(64);
let counter = 0, used = 64, seeded = false;

const rotl = (x, n) => (x << n) | (x >>> (32 - n));

function quarter(x, a, b, c, d) {
  x[a] = x[a] + x[b] | 0; x[d] = rotl(x[d] ^ x[a], 16);
  x[c] = x[c] + x[d] | 0; x[b] = rotl(x[b] ^ x[c], 12);
  x[a] = x[a] + x[b] | 0; x[d] = rotl(x[d] ^ x[a], 8);
  x[c] = x[c] + x[d] | 0; x[b] = rotl(x[b] ^ x[c], 7);
}

// The constant words of a block. The nonce is zero, since each key serves one program.
function begin(x) {
  x[0] = 0x61707865; x[1] = 0x3320646e; x[2] = 0x79622d32; x[3] = 0x6b206574;
  for (let i = 0; i < 8; i++) x[4 + i] = key[i];
  x[12] = counter; x[13] = 0; x[14] = 0; x[15] = 0;
}

const start = new Int32ArrayCtor(16);

function refill() {
  begin(block);
  begin(start);
  for (let i = 0; i < 10; i++) {
    quarter(block, 0, 4, 8, 12); quarter(block, 1, 5, 9, 13); quarter(block, 2, 6, 10, 14); quarter(block, 3, 7, 11, 15);
    quarter(block, 0, 5, 10, 15); quarter(block, 1, 6, 11, 12); quarter(block, 2, 7, 8, 13); quarter(block, 3, 4, 9, 14);
  }
  for (let i = 0; i < 16; i++) {
    const w = block[i] + start[i] | 0;
    stream[4 * i] = w; stream[4 * i + 1] = w >>> 8; stream[4 * i + 2] = w >>> 16; stream[4 * i + 3] = w >>> 24;
  }
  counter = counter + 1 | 0;
  used = 0;
}

function byte() {
  if (!seeded) throw new ErrorCtor("there is no randomness here: the host gave no seed");
  if (unread !== undefined) read();
  if (used === 64) refill();
  return stream[used++];
}

const word = () => byte() | byte() << 8 | byte() << 16 | byte() << 24;

const hex = "0123456789abcdef";
const nibble = (s, i) => indexOf(hex, s[i]);

let unread; // digits of a seed not yet expanded: most programs use no randomness

function read() {
  const digits = unread;
  unread = undefined;
  for (let i = 0; i < 8; i++) {
    let w = 0;
    for (let j = 3; j >= 0; j--) w = w << 8 | nibble(digits, 8 * i + 2 * j) << 4 | nibble(digits, 8 * i + 2 * j + 1);
    key[i] = w;
  }
}

// Math.random is sfc32 by Chris Doty-Humphrey, seeded from the generator above at first use.
let a = 0, b = 0, c = 0, d = 1, fast = false;

function next() {
  const t = (a + b | 0) + d | 0;
  d = d + 1 | 0;
  a = b ^ b >>> 9;
  b = c + (c << 3) | 0;
  c = (c << 21 | c >>> 11) + t | 0;
  return t >>> 0;
}

/**
 * Sets the seed of a program, 64 hexadecimal digits or undefined for none, and starts the clock
 * unless the session's clock continues.
 */
export function seed(digits, goOn) {
  fast = false;
  counter = 0;
  used = 64;
  if (!goOn) origin = now();
  seeded = digits !== undefined;
  unread = digits;
}

define(MathObject, "random", named(() => {
  if (!fast) {
    a = word(); b = word(); c = word(); d = 1;
    for (let i = 0; i < 12; i++) next();
    fast = true;
  }
  return (next() * 2097152 + (next() >>> 11)) / 9007199254740992;
}, "random"));

const crypto = create(null);
const integers = " Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array BigInt64Array BigUint64Array ";

define(crypto, "getRandomValues", named((view) => {
  const tag = typedArrayTag(view);
  if (tag === undefined || indexOf(integers, " " + tag + " ") < 0) throw new TypeErrorCtor("getRandomValues takes a typed array of integers");
  const n = typedArrayBytes(view);
  if (n > 65536) throw new RangeErrorCtor("getRandomValues gives at most 65536 bytes at once, asked for " + n);
  const bytes = new Uint8ArrayCtor(typedArrayBuffer(view), typedArrayOffset(view), n);
  for (let i = 0; i < n; i++) bytes[i] = byte();
  return view;
}, "getRandomValues"), true);

define(crypto, "randomUUID", named(() => {
  let s = "";
  for (let i = 0; i < 16; i++) {
    let x = byte();
    if (i === 6) x = x & 0x0f | 0x40;
    if (i === 8) x = x & 0x3f | 0x80;
    s += (i === 4 || i === 6 || i === 8 || i === 10 ? "-" : "") + hex[x >> 4] + hex[x & 15];
  }
  return s;
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
