// The guest's end of the protocol (internal/exec/sandbox/protocol.go). Runs one program at a time,
// delivers answers to it, and ends each run with exactly one Done or Fail.

import "./shim.js";
import {
  TypeErrorCtor, apply, getOwnPropertyDescriptor, indexOf, join, list, push, record, setPrototypeOf, settled, slice,
} from "./primordials.js";
import * as host from "./host.js";
import { evaluate, framesOf } from "./errors.js";
import { ToolError } from "./toolerror.js";
import * as calls from "./calls.js";
import "./decoded.js";
import "./regexps.js";
import "./sorts.js";
import * as timers from "./timers.js";
import * as console_ from "./console.js";
import { parse, resolved, serialize } from "./json.js";
import "./url.js";
import "./encoding.js";
import { seed } from "./crypto.js";
import "./events.js";
import "./intl.js";
import { setNamespaces } from "./tools.js";
import "./buffer.js";
import "./modules.js";
import "./unshim.js";
import "./atomics.js";
import * as helpers from "./helpers.js";
import { mend } from "./globals.js";

const idle = 0, running = 1, draining = 2;
const grace = 40_000;    // ms that a run waits for calls that the program observed but didn't await
const maxMessage = 64 * 1024;
const maxRejections = 10;

let phase = idle;
// No program has run here: there is nothing to reset, and no page to write for it.
let fresh = true;
let value;               // the program's value, once it has one
let patience;            // id of the timer for grace
let outOfPatience = false;
let promises = 0;        // pending promises inside the value
let rejections = list();
let spare = list();      // empty
let forgotten;           // ids of calls that the program never observed or awaited
let session = false;     // the program belongs to a session
let deletes = false;     // a program of the session may have deleted globals

function start(run) {
  phase = running;
  session = run.session === true;
  value = undefined;
  outOfPatience = false;
  patience = undefined;
  promises = 0;
  if (rejections.length > 0) rejections = list();
  forgotten = undefined;
  if (!fresh) {
    calls.reset(session);
    timers.begin(session);
    console_.reset(session);
    if (session && deletes) mend();
  }
  if (session && !deletes) deletes = indexOf(run.code, "delete") >= 0;
  seed(run.seed, session && !fresh);
  if (helpers.lasting !== session) helpers.setLasting(session);
  if (helpers.used || !session && !fresh) helpers.reset();
  setNamespaces(run, session && !fresh, fresh);
  fresh = false;
  let result;
  try {
    const f = evaluate(run.code, run.name || "program");
    if (typeof f !== "function") throw new TypeErrorCtor("the program is no function");
    result = apply(f, undefined, []);
  } catch (e) {
    fail(e);
    return;
  }
  settled(result, (v) => { if (phase === running) { value = v; phase = draining; } }, fail);
}

function end() {
  phase = idle;
  if (patience !== undefined) timers.cancel(patience);
  patience = undefined;
  if (!session) timers.reset();
}

function drain() {
  if (promises > 0) {
    if (calls.waiting() === 0 && timers.timers() === (patience === undefined ? 0 : 1)) stalled();
    return;
  }
  const left = calls.forgotten();
  if (calls.waitingCalls() > 0 && !(outOfPatience && left.unseen === 0)) {
    if (patience === undefined) patience = timers.after(grace, () => { outOfPatience = true; patience = undefined; });
    return;
  }
  finish(left);
}

function finish(left) {
  const pending = spare;
  if (value === undefined && helpers.used) value = helpers.value();
  let text;
  try {
    text = serialize(value, pending);
  } catch (e) {
    fail(e);
    return;
  } finally {
    if (pending.length > 0) spare = list();
  }
  // Before the promises in the value are observed on the program's behalf.
  if (forgotten === undefined) forgotten = left.ids;
  if (pending.length > 0) { waitFor(pending); return; }
  if (left.failures.length + rejections.length > 0) report(left.failures);
  if (helpers.used) helpers.flush();
  end();
  host.sendDone(text, forgotten.length > 0 ? "[" + join(forgotten, ",") + "]" : "");
}

// A program that returns promises inside its value means their results.
function waitFor(pending) {
  promises = pending.length;
  for (let i = 0; i < pending.length; i++) {
    const p = pending[i];
    settled(p, (v) => { resolved(p, v); promises--; }, fail);
  }
  timers.after(0, () => {}); // so that idle() is called again once they have settled
}

function report(failures) {
  for (let i = 0; i < failures.length && i < maxRejections; i++) {
    console_.line("error", failures[i].path + " was never awaited, and failed: " + failures[i].failure.message);
  }
  for (let i = 0; i < rejections.length; i++) console_.line("error", "an unawaited promise failed: " + brief(rejections[i]));
}

function brief(e) {
  const d = describe(e);
  return (d.name ? d.name + ": " : "") + d.message;
}

function text(e, name) {
  const v = e[name];
  return typeof v === "string" ? (v.length > maxMessage ? slice(v, 0, maxMessage) + "…" : v) : "";
}

const isError = Error.isError;

// Describes what the program threw in the protocol's form. Reading it may run the program's own
// code, hence the try.
function describe(e) {
  try {
    if (e === null || typeof e !== "object" || typeof e.message !== "string") {
      return record({ message: "the program threw " + slice(console_.show(e), 0, maxMessage) });
    }
    const out = record({ name: text(e, "name"), message: text(e, "message"), stack: framesOf(e) });
    if (e instanceof ToolError) {
      out.kind = text(e, "kind"); out.upstream = text(e, "upstream"); out.tool = text(e, "tool");
    }
    const more = list();
    const cause = getOwnPropertyDescriptor(e, "cause");
    if (cause !== undefined && cause.value !== undefined) push(more, "caused by: " + causeText(cause.value));
    const errors = getOwnPropertyDescriptor(e, "errors");
    if (errors !== undefined && errors.value) for (let i = 0; i < errors.value.length && i < 10; i++) push(more, "- " + causeText(errors.value[i]));
    if (more.length > 0) out.message = slice(out.message + "\n" + join(more, "\n"), 0, maxMessage);
    return out;
  } catch {
    return record({ message: "the program threw a value that can't be shown" });
  }
}

function causeText(c) {
  if (isError(c)) return text(c, "name") + ": " + text(c, "message");
  return slice(console_.show(c), 0, 2000);
}

function fail(e) {
  if (phase === idle || e === helpers.gone) return;
  helpers.flush();
  const fields = describe(e);
  for (let i = 0; i < rejections.length; i++) {
    if (rejections[i] !== e) console_.line("error", "an unawaited promise failed: " + brief(rejections[i]));
  }
  end();
  host.sendFail(fields);
}

function stalled() {
  let why = "", stack = "";
  for (let i = 0; i < rejections.length; i++) {
    const e = rejections[i];
    if (isOutOfMemory(e)) { fail(e); return; } // it ended the job that would have continued
    if (i === 0) { why = " Before that, an unawaited promise failed: " + brief(e); stack = framesOf(e); }
    else console_.line("error", "an unawaited promise failed: " + brief(e));
  }
  end();
  host.sendFail(record({
    name: "Error", kind: "stalled", stack,
    message: "the program waits for a promise that can never settle: no call and no timer is outstanding. " +
      "Look for a new Promise whose resolve is never called, or an await of something that never ends." + why,
  }));
}

function isOutOfMemory(e) {
  try { return isError(e) && e.name === "InternalError" && e.message === "out of memory"; } catch { return false; }
}

/** Handles a line of the host. With long false, the line has no long runs of digits. */
function deliver(line, long) {
  const m = setPrototypeOf(parse(line, long), null);
  if (m.at !== undefined) host.clock(m.at);
  if (m.answer !== undefined) { if (phase !== idle || session) calls.answer(setPrototypeOf(m.answer, null)); return; }
  if (m.wake !== undefined) { timers.wake(); return; }
  if (m.run !== undefined && phase === idle) start(setPrototypeOf(m.run, null));
}

helpers.leaving((v) => {
  if (phase !== running) return;
  value = v;
  phase = draining;
  calls.refuse(helpers.gone);
});

timers.failing((e, earlier) => {
  if (earlier) console_.line("error", "a timer of an earlier program failed: " + brief(e));
  else fail(e);
});

const api = record({
  deliver(line, long) { deliver(line, long); },
  give: (id, text) => (phase !== idle || session) && calls.give(id, text),
  idle() {
    if (phase === running && calls.waiting() === 0 && timers.timers() === 0) stalled();
    else if (phase === draining) drain();
  },
  unhandled(reason) {
    if (phase === idle || reason === helpers.gone || rejections.length >= maxRejections) return;
    for (let i = 0; i < rejections.length; i++) if (rejections[i] === reason) return;
    push(rejections, reason);
  },
});

export default api;
