// setTimeout and related functions, over the single wake-up that the host offers.

import { MapCtor, NumberCtor, RangeErrorCtor, TypeErrorCtor, apply, global, isFinite, list, mapDelete, mapGet, mapSet, mapSize, max, record } from "./primordials.js";
import { now, timer } from "./host.js";

const maxDelay = 2 ** 31 - 1;
const maxTimers = 100_000;

let live = new MapCtor(); // id to {id, at, seq, every, fn, args}
let heap = list();        // live and cancelled timers, earliest first
let nextID = 1, seq = 0, armed = -1;

/** The number of programs that ran in this guest before the current one. */
export let runs = 0;

const before = (a, b) => a.at < b.at || (a.at === b.at && a.seq < b.seq);

function add(t) {
  let i = heap.length;
  heap[i] = t;
  while (i > 0) {
    const up = (i - 1) >> 1;
    if (!before(heap[i], heap[up])) break;
    const x = heap[i]; heap[i] = heap[up]; heap[up] = x;
    i = up;
  }
}

function take() {
  const first = heap[0], last = heap[heap.length - 1];
  heap.length--;
  if (heap.length === 0) return first;
  heap[0] = last;
  for (let i = 0; ;) {
    let least = i;
    for (let c = 2 * i + 1; c <= 2 * i + 2 && c < heap.length; c++) if (before(heap[c], heap[least])) least = c;
    if (least === i) return first;
    const x = heap[i]; heap[i] = heap[least]; heap[least] = x;
    i = least;
  }
}

const dead = (t) => mapGet(live, t.id) !== t;

function arm() {
  while (heap.length > 0 && dead(heap[0])) take();
  const at = heap.length > 0 ? heap[0].at : -1;
  if (at === armed) return;
  armed = at;
  timer(at < 0 ? -1 : max(0, at - now()));
}

function start(fn, ms, args, every) {
  if (mapSize(live) >= maxTimers) throw new RangeErrorCtor("too many timers: " + maxTimers + " are set");
  ms = NumberCtor(ms);
  if (!(ms >= 1)) ms = every ? 1 : 0;
  if (ms > maxDelay) ms = 1;
  const t = record({ id: nextID++, at: now() + ms, seq: seq++, every: every ? ms : -1, fn, args, run: runs });
  mapSet(live, t.id, t);
  add(t);
  arm();
  return t.id;
}

function set(every) {
  return (fn, ms, args) => {
    if (typeof fn !== "function") throw new TypeErrorCtor((every ? "setInterval" : "setTimeout") + " takes a function, got a " + typeof fn);
    return start(fn, ms, args, every);
  };
}

function clear(id) {
  if (id !== undefined && mapDelete(live, NumberCtor(id))) arm();
}

const timeout = set(false), interval = set(true);
global("setTimeout", function setTimeout(fn, ms, ...args) { return timeout(fn, ms, args); });
global("setInterval", function setInterval(fn, ms, ...args) { return interval(fn, ms, args); });
global("setImmediate", function setImmediate(fn, ...args) { return timeout(fn, 0, args); });
global("clearTimeout", function clearTimeout(id) { clear(id); });
global("clearInterval", function clearInterval(id) { clear(id); });
global("clearImmediate", function clearImmediate(id) { clear(id); });

const enqueue = globalThis.queueMicrotask; // the engine's, which discards exceptions
global("queueMicrotask", function queueMicrotask(fn) {
  if (typeof fn !== "function") throw new TypeErrorCtor("queueMicrotask takes a function, got a " + typeof fn);
  const run = runs;
  enqueue(() => { try { apply(fn, undefined, []); } catch (e) { failed(e, run !== runs); } });
});

let failed = () => {};

/**
 * Sets the handler of exceptions in timers and microtasks. Its second argument tells whether an
 * earlier program scheduled them.
 */
export function failing(f) { failed = f; }

/** Starts a timer of the runtime itself. */
export const after = (ms, fn) => timeout(fn, ms, []);
export const cancel = clear;

/** Returns the number of active timers. */
export const timers = () => mapSize(live);

/**
 * Prepares for a new program. Outside a session all timers are discarded. The wake-up is requested
 * again.
 */
export function begin(session) {
  runs++;
  if (!session) { reset(); return; }
  armed = -2;
  if (heap.length > 0) arm();
}

/** Discards all timers. */
export function reset() {
  if (heap.length === 0 && armed === -1) return;
  live = new MapCtor();
  heap = list();
  armed = -2;
  arm();
}

/** Runs the first due timer. Only one runs per wake-up, so that promise jobs run between timers. */
export function wake() {
  armed = -2;
  while (heap.length > 0 && dead(heap[0])) take();
  if (heap.length > 0 && heap[0].at <= now()) {
    const t = take();
    if (t.every >= 0) { t.at = now() + t.every; t.seq = seq++; add(t); }
    else mapDelete(live, t.id);
    try { apply(t.fn, undefined, t.args); } catch (e) { failed(e, t.run !== runs); }
    arm();
    return;
  }
  arm();
}

/** Reports whether ms is a valid delay. */
export const isDelay = (ms) => typeof ms === "number" && isFinite(ms) && ms >= 0;
