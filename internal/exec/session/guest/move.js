(async () => {
  const bytes = Uint8Array.from(atob(ARGUMENT), (c) => c.charCodeAt(0));
  const argument = JSON.parse(new TextDecoder().decode(bytes));

  // Values are pairs of a letter and what JSON can express.
  const encode = (value, path) => {
    if (value === null || typeof value === "boolean" || typeof value === "string") return ["v", value];
    if (value === undefined) return ["x"];
    if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0) ? ["v", value] : ["n", Object.is(value, -0) ? "-0" : String(value)];
    if (typeof value === "bigint") return ["b", String(value)];
    if (typeof value !== "object") throw new TypeError("a " + typeof value);
    if (path.includes(value)) throw new TypeError("a value that contains itself");
    if (path.length > 200) throw new TypeError("a value that is too deep");
    const inner = [...path, value];
    const proto = Object.getPrototypeOf(value);
    if (Array.isArray(value)) return ["a", Array.from(value, (v) => encode(v, inner))];
    if (proto === Date.prototype) return ["d", value.getTime()];
    if (proto === RegExp.prototype) return ["r", value.source, value.flags];
    if (proto === Map.prototype) return ["m", Array.from(value, ([k, v]) => [encode(k, inner), encode(v, inner)])];
    if (proto === Set.prototype) return ["s", Array.from(value, (v) => encode(v, inner))];
    if (ArrayBuffer.isView(value) && !(value instanceof DataView)) return ["t", proto.constructor.name, Array.from(value, (v) => encode(v, inner))];
    if (proto !== Object.prototype && proto !== null) throw new TypeError("an object of class " + (proto.constructor?.name || "unknown"));
    return ["o", Object.keys(value).map((k) => [k, encode(value[k], inner)])];
  };
  const decode = ([kind, value, more]) => {
    switch (kind) {
      case "v": return value;
      case "x": return undefined;
      case "n": return Number(value);
      case "b": return BigInt(value);
      case "a": return value.map(decode);
      case "d": return new Date(value ?? NaN);
      case "r": return new RegExp(value, more);
      case "m": return new Map(value.map(([k, v]) => [decode(k), decode(v)]));
      case "s": return new Set(value.map(decode));
      case "t": return globalThis[value].from(more.map(decode));
      case "o": {
        const out = {};
        for (const [k, v] of value) Object.defineProperty(out, k, { value: decode(v), enumerable: true, writable: true, configurable: true });
        return out;
      }
    }
    throw new TypeError("unknown form " + kind);
  };
  const functions = {
    collect({ names, most }) {
      const moved = {}, left = {};
      for (const name of names) {
        if (!Object.hasOwn(globalThis, name)) continue;
        try {
          const value = globalThis[name];
          const item = typeof value === "function"
            ? { kind: "program", text: `(async () => { globalThis[${JSON.stringify(name)}] = (${Function.prototype.toString.call(value)}); })` }
            : { kind: "value", text: JSON.stringify(encode(value, [])) };
          most -= item.text.length;
          if (most < 0) left[name] = "the variables are too large";
          else moved[name] = item;
        } catch (e) {
          left[name] = String(e?.message ?? e).slice(0, 100);
        }
      }
      return { moved, left };
    },
    restore({ moved }) {
      const left = {};
      for (const [name, item] of Object.entries(moved)) {
        if (item.kind !== "value") continue;
        try {
          globalThis[name] = decode(JSON.parse(item.text));
        } catch (e) {
          left[name] = String(e?.message ?? e).slice(0, 100);
        }
      }
      return { left };
    },
  };
  return JSON.stringify(functions.FUNCTION(argument));
})
