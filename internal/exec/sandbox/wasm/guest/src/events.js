// Event, EventTarget, AbortController and AbortSignal (https://dom.spec.whatwg.org), as far as
// programs without a document need them.

import { TypeErrorCtor, define, global } from "./primordials.js";
import { after } from "./timers.js";

class Event {
  #type; #stopped = false; #prevented = false; #cancelable;
  constructor(type, options) {
    this.#type = `${type}`;
    this.#cancelable = !!(options && options.cancelable);
    define(this, "target", null);
  }
  get type() { return this.#type; }
  get cancelable() { return this.#cancelable; }
  get defaultPrevented() { return this.#prevented; }
  preventDefault() { if (this.#cancelable) this.#prevented = true; }
  stopImmediatePropagation() { this.#stopped = true; }
  stopPropagation() {}
  static stopped(e) { return e.#stopped; }
}
const stopped = Event.stopped;
delete Event.stopped;

class CustomEvent extends Event {
  constructor(type, options) {
    super(type, options);
    define(this, "detail", options && options.detail !== undefined ? options.detail : null, true);
  }
}

class EventTarget {
  #listeners = [];
  addEventListener(type, listener, options) {
    if (listener === null || listener === undefined) return;
    const once = !!(options && options.once), signal = options && options.signal;
    for (const l of this.#listeners) if (l.type === type && l.listener === listener) return;
    this.#listeners.push({ type, listener, once });
    if (signal) signal.addEventListener("abort", () => this.removeEventListener(type, listener));
  }
  removeEventListener(type, listener) {
    this.#listeners = this.#listeners.filter((l) => l.type !== type || l.listener !== listener);
  }
  dispatchEvent(event) {
    if (!(event instanceof Event)) throw new TypeErrorCtor("dispatchEvent takes an Event");
    define(event, "target", this);
    define(event, "currentTarget", this);
    const handler = this["on" + event.type];
    if (typeof handler === "function") handler.call(this, event);
    for (const l of this.#listeners.slice()) {
      if (l.type !== event.type || stopped(event)) continue;
      if (l.once) this.removeEventListener(l.type, l.listener);
      if (typeof l.listener === "function") l.listener.call(this, event);
      else l.listener.handleEvent(event);
    }
    return !event.defaultPrevented;
  }
}

const key = {};
const aborted = (message, name) => new DOMException(message, name);

class AbortSignal extends EventTarget {
  #aborted = false; #reason = undefined;
  constructor(k) {
    if (k !== key) throw new TypeErrorCtor("AbortSignal can't be constructed: use new AbortController().signal");
    super();
    define(this, "onabort", null, true);
  }
  get aborted() { return this.#aborted; }
  get reason() { return this.#reason; }
  throwIfAborted() { if (this.#aborted) throw this.#reason; }
  static abort(reason) { const s = new AbortSignal(key); s.#abort(reason); return s; }
  static timeout(ms) {
    const s = new AbortSignal(key);
    after(ms, () => s.#abort(aborted("the operation was aborted due to timeout", "TimeoutError")));
    return s;
  }
  static any(signals) {
    const s = new AbortSignal(key);
    for (const x of signals) {
      if (x.aborted) { s.#abort(x.reason); return s; }
      x.addEventListener("abort", () => s.#abort(x.reason), { once: true });
    }
    return s;
  }
  static abortSignal(s, reason) { s.#abort(reason); }
  #abort(reason) {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason === undefined ? aborted("this operation was aborted", "AbortError") : reason;
    this.dispatchEvent(new Event("abort"));
  }
}
const abortSignal = AbortSignal.abortSignal;
delete AbortSignal.abortSignal;

class AbortController {
  #signal = new AbortSignal(key);
  get signal() { return this.#signal; }
  abort(reason) { abortSignal(this.#signal, reason); }
}

global("Event", Event);
global("CustomEvent", CustomEvent);
global("EventTarget", EventTarget);
global("AbortSignal", AbortSignal);
global("AbortController", AbortController);
