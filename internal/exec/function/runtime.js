({
  // The JSON Schema of what an author gives as parameters: zod of any version, JSON Schema, or a map of properties.
  schemaOf(p) {
    const maxDepth = 40;
    const isZod = (s) => s !== null && typeof s === "object" && (s._zod !== undefined && s._zod.def !== undefined || s._def !== undefined && typeof s.parse === "function");
    if (p === undefined || p === null) return undefined;
    if (typeof p === "function") throw new Error("parameters must be a schema, not a function");
    if (typeof p !== "object") throw new Error("parameters must be an object, not a " + typeof p);
    const standard = p["~standard"];
    if (!isZod(p) && standard && standard.jsonSchema && typeof standard.jsonSchema.input === "function") return standard.jsonSchema.input({ target: "draft-2020-12" });
    if (isZod(p)) return whole(p);
    if (p.jsonSchema !== undefined && typeof p.jsonSchema === "object" && p.type === undefined) return p.jsonSchema;
    if (p.type === "object" || p.properties !== undefined || p.$ref !== undefined || p.anyOf || p.oneOf || p.allOf) return p;
    const required = [], properties = {};
    for (const k of Object.keys(p)) {
      const s = p[k];
      if (typeof s === "string") properties[k] = { type: s };
      else if (isZod(s)) properties[k] = whole(s);
      else if (s !== null && typeof s === "object" && !Array.isArray(s)) { properties[k] = { ...s }; if (typeof s.required === "boolean") delete properties[k].required; }
      else throw new Error("parameters." + k + " is not a schema");
      const optional = isZod(s) ? accepts(s) : s.required === false || s.optional === true || s.default !== undefined;
      if (!optional) required.push(k);
    }
    return { type: "object", properties, required };

    // whole converts a schema of zod, by the library's own function if it has one.
    function whole(s) {
      try {
        if (s["~standard"] && s["~standard"].jsonSchema) return s["~standard"].jsonSchema.input({ target: "draft-2020-12" });
        if (typeof s.toJSONSchema === "function") return s.toJSONSchema({ io: "input", unrepresentable: "any" });
      } catch {} // it has a type that the library can't convert
      return zod(s, 0);
    }
    // accepts reports whether a schema accepts undefined.
    function accepts(s) {
      const d = s._zod !== undefined ? s._zod.def : s._def, t = nameOf(s, d);
      if (t === "optional" || t === "default" || t === "prefault" || t === "catch" || t === "any" || t === "unknown" || t === "undefined") return true;
      if (t === "union") return d.options.some(accepts);
      const inner = d.innerType || d.schema || (t === "pipe" || t === "pipeline" ? d.in : undefined);
      return (t === "nullable" || t === "readonly" || t === "effects" || t === "transform" || t === "pipe" || t === "pipeline" || t === "branded") && inner !== undefined && accepts(inner);
    }
    function nameOf(s, d) {
      if (typeof d.type === "string") return d.type;
      const n = String(d.typeName || "").replace(/^Zod/, "");
      return n.toLowerCase();
    }
    function zod(s, depth) {
      if (depth > maxDepth) return {};
      const d = s._zod !== undefined ? s._zod.def : s._def, t = nameOf(s, d), more = (x) => zod(x, depth + 1);
      const out = shape(s, d, t, more);
      const description = s.description !== undefined ? s.description : d.description;
      if (typeof description === "string" && description !== "") return { ...out, description };
      return out;
    }
    function shape(s, d, t, more) {
      switch (t) {
        case "string": return string(s, d);
        case "number": return number(s, d);
        case "int": case "bigint": return { type: "integer" };
        case "boolean": return { type: "boolean" };
        case "null": return { type: "null" };
        case "date": return { type: "string", format: "date-time" };
        case "literal": {
          const values = d.values !== undefined ? [...d.values] : [d.value];
          return values.length === 1 ? { const: values[0] } : { enum: values };
        }
        case "enum": {
          const v = Array.isArray(d.values) ? d.values : Object.values(d.entries || d.values || {});
          return { enum: v };
        }
        case "nativeenum": { const e = d.values; return { enum: Object.keys(e).filter((k) => typeof e[e[k]] !== "number").map((k) => e[k]) }; }
        case "array": case "set": {
          const out = { type: "array", items: more(d.element || d.valueType || d.type) }, b = bounds(s, d);
          if (b.min !== undefined) out.minItems = b.min;
          if (b.max !== undefined) out.maxItems = b.max;
          return out;
        }
        case "tuple": return { type: "array", prefixItems: d.items.map(more), minItems: d.items.length };
        case "object": {
          const of = typeof d.shape === "function" ? d.shape() : d.shape, properties = {}, required = [];
          for (const k of Object.keys(of)) { properties[k] = more(of[k]); if (!accepts(of[k])) required.push(k); }
          const out = { type: "object", properties };
          if (required.length > 0) out.required = required;
          if (d.unknownKeys === "strict" || d.extra === "strict" || d.catchall && nameOf(d.catchall, d.catchall._zod ? d.catchall._zod.def : d.catchall._def) === "never" && d.unknownKeys === undefined) out.additionalProperties = false;
          return out;
        }
        case "record": case "map": return { type: "object", additionalProperties: more(d.valueType) };
        case "union": case "discriminatedunion": return { anyOf: [...(Array.isArray(d.options) ? d.options : d.options.values())].map(more) };
        case "intersection": return { allOf: [more(d.left), more(d.right)] };
        case "optional": case "readonly": case "nonoptional": case "success": case "catch": case "branded": return more(d.innerType || d.type);
        case "nullable": return { anyOf: [more(d.innerType), { type: "null" }] };
        case "default": case "prefault": {
          const v = typeof d.defaultValue === "function" ? d.defaultValue() : d.defaultValue;
          return { ...more(d.innerType), default: v };
        }
        case "effects": return more(d.schema);
        case "transform": return d.innerType === undefined ? {} : more(d.innerType);
        case "pipe": case "pipeline": return more(d.in);
        case "lazy": return more(d.getter());
        case "any": case "unknown": return {};
        case "never": return { not: {} };
        default: throw new Error("a " + (t || "schema") + " of zod has no JSON Schema");
      }
    }
    // bounds reads the checks of zod 3 and 4, and of Biplane's own module.
    function bounds(s, d) {
      const out = {}, bag = s._zod !== undefined && s._zod.bag || {};
      if (d.bounds) { out.min = d.bounds[">="]; out.max = d.bounds["<="]; out.above = d.bounds[">"]; out.below = d.bounds["<"]; }
      if (d.minLength && typeof d.minLength === "object") out.min = d.minLength.value;
      if (d.maxLength && typeof d.maxLength === "object") out.max = d.maxLength.value;
      if (bag.minimum !== undefined) out.min = bag.minimum;
      if (bag.maximum !== undefined) out.max = bag.maximum;
      if (bag.exclusiveMinimum !== undefined) out.above = bag.exclusiveMinimum;
      if (bag.exclusiveMaximum !== undefined) out.below = bag.exclusiveMaximum;
      for (const c of d.checks || []) {
        if (c.kind === "min") out[c.inclusive === false ? "above" : "min"] = c.value;
        if (c.kind === "max") out[c.inclusive === false ? "below" : "max"] = c.value;
        if (c.kind === "length") out.min = out.max = c.value;
      }
      return out;
    }
    function string(s, d) {
      const out = { type: "string" }, b = bounds(s, d);
      if (Number.isInteger(b.min)) out.minLength = b.min;
      if (Number.isInteger(b.max)) out.maxLength = b.max;
      const formats = { email: "email", url: "uri", uuid: "uuid", guid: "uuid", datetime: "date-time", date: "date", time: "time", ipv4: "ipv4", ipv6: "ipv6" };
      const kinds = [d.format, s._zod !== undefined && s._zod.bag && s._zod.bag.format, ...(d.checks || []).map((c) => c.kind)];
      for (const k of kinds) {
        if (typeof k === "string" && Object.hasOwn(formats, k)) out.format = formats[k];
        else if (k === "uri" || k === "date-time") out.format = k;
      }
      if (d.pattern !== undefined && typeof d.pattern === "string") out.pattern = d.pattern;
      for (const c of d.checks || []) if (c.kind === "regex") out.pattern = c.regex.source;
      return out;
    }
    function number(s, d) {
      const bag = s._zod !== undefined && s._zod.bag || {};
      const int = d.int || s.isInt === true || bag.format === "safeint" || bag.format === "int32" || d.format === "safeint" || (d.checks || []).some((c) => c.kind === "int");
      const out = { type: int ? "integer" : "number" }, b = bounds(s, d);
      const keep = (k, v) => { if (typeof v === "number" && Number.isFinite(v) && Math.abs(v) < Number.MAX_SAFE_INTEGER) out[k] = v; };
      keep("minimum", b.min); keep("maximum", b.max); keep("exclusiveMinimum", b.above); keep("exclusiveMaximum", b.below);
      keep("multipleOf", d.multipleOf !== undefined ? d.multipleOf : bag.multipleOf);
      return out;
    }
  },

  // What a module exports, as Go's exportInfo.
  describe(m) {
    const out = [], seen = new Set();
    const text = (v) => (typeof v === "string" ? v : undefined);
    const names = Object.keys(m).filter((k) => k !== "default");
    if ("default" in m && m.default !== undefined && m.default !== m) names.push("default");
    for (const name of names) {
      const x = m[name];
      const isTool = x !== null && typeof x === "object" && typeof x.execute === "function";
      if (!isTool && (typeof x !== "function" || /^class\b/.test(Function.prototype.toString.call(x))) || seen.has(x)) continue;
      seen.add(x);
      const info = { name, kind: isTool ? "tool" : "function", title: text(x.title), description: text(x.description), annotations: x.annotations };
      if (isTool && typeof x.name === "string") info.label = x.name;
      if (isTool && typeof x.id === "string" && info.label === undefined) info.label = x.id;
      if (!isTool) { info.text = x.name; info.head = Function.prototype.toString.call(x).slice(0, 4000); }
      const p = isTool && x.parameters === undefined ? x.inputSchema : x.parameters;
      try {
        const s = this.schemaOf(p);
        if (s !== undefined) info.schema = JSON.parse(JSON.stringify(s));
      } catch (e) { info.problem = String(e && e.message || e); }
      out.push(info);
    }
    return out;
  },

  // Calls an export with arguments by name.
  async invoke(m, how, args) {
    const x = m[how.export];
    const p = x.parameters === undefined ? x.inputSchema : x.parameters;
    if (p !== undefined && p !== null && typeof p.parse === "function") {
      const r = await (typeof p.safeParseAsync === "function" ? p.safeParseAsync(args) : p.safeParse(args));
      if (!r.success) {
        const issues = r.error.issues || [];
        throw new TypeError(issues.length > 0 ? issues.map((i) => (i.path && i.path.length > 0 ? i.path.join(".") + ": " : "") + i.message).join("; ") : r.error.message);
      }
      args = r.data;
    }
    if (how.kind === "tool") return x.execute(args, {});
    if (how.names === undefined) return x(args);
    const list = how.names.map((n) => args[n]);
    if (how.rest) { const rest = list.pop(); if (Array.isArray(rest)) list.push(...rest); }
    else while (list.length > 0 && list[list.length - 1] === undefined) list.pop();
    return x(...list);
  },
})
