// Atomics, which the engine lacks. There is only one thread, so every operation is atomic.

import { BigIntCtor, NumberCtor, ObjectPrototype, RangeErrorCtor, TypeErrorCtor, create, define, global, keys, named, setAdd, setHas, SetCtor, setPrototypeOf, typedArrayLength, typedArrayTag } from "./primordials.js";

const kinds = new SetCtor();
for (const k of ["Int8Array", "Uint8Array", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "BigInt64Array", "BigUint64Array"]) setAdd(kinds, k);

const kindOf = { __proto__: null, Int8Array, Uint8Array, Int16Array, Uint16Array, Int32Array, Uint32Array, BigInt64Array, BigUint64Array };
const { floor, trunc } = Math;

// Checks the array and index of an operation and returns the index.
function place(array, index) {
  if (array === null || typeof array !== "object" || !setHas(kinds, typedArrayTag(array))) throw new TypeErrorCtor("an integer typed array is expected");
  const n = NumberCtor(index), i = n !== n ? 0 : n < 0 ? -floor(-n) : floor(n);
  if (i < 0 || i >= typedArrayLength(array)) throw new RangeErrorCtor("index out of range");
  return i;
}

const isBig = (array) => { const tag = typedArrayTag(array); return tag === "BigInt64Array" || tag === "BigUint64Array"; };

// Converts a value to the element type of the array: an integer or a BigInt.
function whole(array, v) {
  if (isBig(array)) return typeof v === "bigint" ? v : BigIntCtor(toBigInt(v));
  const n = NumberCtor(v);
  return n !== n ? 0 : trunc(n) + 0;
}

function toBigInt(v) {
  if (typeof v === "number") throw new TypeErrorCtor("a number is no BigInt");
  return v;
}

const update = (f) => (array, index, v) => {
  const i = place(array, index), by = whole(array, v), before = array[i];
  array[i] = f(before, by);
  return before;
};

const methods = create(null);
methods.add = update((a, b) => a + b);
methods.and = update((a, b) => a & b);
methods.compareExchange = (array, index, expected, replacement) => {
  const i = place(array, index), was = whole(array, expected), to = whole(array, replacement), before = array[i];
  const scratch = new kindOf[typedArrayTag(array)](1);
  scratch[0] = was;
  if (before === scratch[0]) array[i] = to;
  return before;
};
methods.exchange = update((a, b) => b);
methods.isLockFree = (size) => size === 1 || size === 2 || size === 4 || size === 8;
methods.load = (array, index) => array[place(array, index)];
methods.notify = (array, index) => { place(array, index); return 0; };
methods.or = update((a, b) => a | b);
methods.store = (array, index, v) => {
  const i = place(array, index), to = whole(array, v);
  array[i] = to;
  return to;
};
methods.sub = update((a, b) => a - b);
methods.wait = (array, index) => {
  place(array, index);
  throw new TypeErrorCtor("Atomics.wait: there is one thread, so that nothing could end the wait");
};
methods.xor = update((a, b) => a ^ b);

const out = setPrototypeOf({}, ObjectPrototype);
const names = keys(methods);
for (let i = 0; i < names.length; i++) define(out, names[i], named(methods[names[i]], names[i]));
define(out, Symbol.toStringTag, "Atomics");
global("Atomics", out);
