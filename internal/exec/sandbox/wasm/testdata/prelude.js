// A prelude for the driver's own tests: each line from the host is a script; what it gives is written back as a line
// of JSON, awaited.
(() => {
  "use strict";
  const host = globalThis.__host;
  delete globalThis.__host;
  let waiting = new Map(), next = 1;
  const write = (v) => host("write", JSON.stringify(v) + "\n");
  const fail = (e) => write({ error: String(e), stack: e && e.stack });
  globalThis.write = write;
  globalThis.now = () => host("now");
  globalThis.clock = (ms) => host("clock", ms);
  globalThis.question = (s) => host("ask", s);
  globalThis.evalAs = (code, name) => host("eval", code, name);
  globalThis.ask = (x) => new Promise((ok) => { waiting.set(next, ok); write({ ask: next++, x }); });
  return {
    deliver(line) {
      if (line.startsWith("answer ")) {
        const [, id, v] = line.split(" ");
        waiting.get(Number(id))(v);
        return;
      }
      if (line.startsWith("throw ")) throw (0, eval)(line.slice(6));
      try {
        const v = (0, eval)(line);
        if (v instanceof Promise) v.then((value) => write({ value }), fail);
        else write({ value: v });
      } catch (e) { fail(e); }
    },
    idle() { if (globalThis.onidle) globalThis.onidle(); },
    unhandled(reason) { write({ unhandled: String(reason) }); },
  };
})();
