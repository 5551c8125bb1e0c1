// Functions that programs know from similar systems: text, image, notify, exit, final_answer,
// store, load, sleep. They are ordinary globals that a program may redeclare.

import { ErrorCtor, MapCtor, NumberCtor, PromiseCtor, StringCtor, define, global, list, mapGet, mapSet, push } from "./primordials.js";
import * as console_ from "./console.js";
import { emit } from "./tools.js";
import { after } from "./timers.js";

let texts = list();       // values passed to text()
let given = false;        // the texts are the program's value
let kept = new MapCtor(); // values kept by store()
let warned = false;

/** The program belongs to a session. */
export let lasting = false;
/** Texts were passed to text(), or store warned, since reset. */
export let used = false;

/** The error that exit and final_answer throw to end the program. */
export const gone = new ErrorCtor("the program has ended itself");

let leave = () => {};
/** Sets the function that ends the program with a value. */
export function leaving(f) { leave = f; }

/** Tells whether the program belongs to a session. */
export function setLasting(session) { lasting = session; }

/** Resets the state at the start of a run, if it was used or the program belongs to no session. */
export function reset() {
  used = given = warned = false;
  if (texts.length > 0) texts = list();
  if (!lasting) kept = new MapCtor();
}

/**
 * Returns what was passed to text(), for a program without a value of its own: a single text as is,
 * several as an array; undefined if none.
 */
export function value() {
  if (texts.length === 0) return undefined;
  given = true;
  if (texts.length === 1) return texts[0];
  const all = [];
  for (let i = 0; i < texts.length; i++) define(all, i, texts[i], true);
  return all;
}

/** Writes the texts to the console unless they are the program's value. */
export function flush() {
  if (texts.length === 0) return;
  if (!given) for (let i = 0; i < texts.length; i++) console_.line("log", shown(texts[i]));
  texts = list();
}

const shown = (v) => (typeof v === "string" ? v : console_.show(v));

global("text", function text(v) {
  const block = v !== null && typeof v === "object" && v.type === "text" && typeof v.text === "string";
  used = true;
  push(texts, block ? v.text : v);
});

global("image", function image(x) { emit(x); });

global("notify", function notify(v) { console_.line("info", shown(v)); });

global("store", function store(key, v) {
  if (!lasting && !warned) {
    used = warned = true;
    console_.line("warn", "store: without a session, stored values are lost when this program ends");
  }
  mapSet(kept, StringCtor(key), v);
});

global("load", function load(key) { return mapGet(kept, StringCtor(key)); });

global("sleep", function sleep(ms) {
  return new PromiseCtor((resolve) => { after(ms === undefined ? 0 : NumberCtor(ms), () => { resolve(undefined); }); });
});

global("final_answer", function final_answer(v) { leave(v); throw gone; });

global("exit", function exit(code) {
  if (code !== undefined && code !== null && code !== 0) {
    throw new ErrorCtor(typeof code === "string" ? code : "the program exited with code " + StringCtor(code));
  }
  leave(undefined);
  throw gone;
});
