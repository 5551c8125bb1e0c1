"fetch" in globalThis || Object.defineProperty(globalThis, "fetch", { configurable: true, writable: true, value: (() => {
  const call = callTool, encode = (s) => new TextEncoder().encode(s);
  const toBase64 = (b) => { let s = ""; for (let i = 0; i < b.length; i += 8192) s += String.fromCharCode(...b.subarray(i, i + 8192)); return btoa(s); };
  const fromBase64 = (s) => Uint8Array.from(atob(s), (c) => c.charCodeAt(0));
  class Headers {
    #m = new Map();
    constructor(init) { const of = init == null ? [] : typeof init[Symbol.iterator] === "function" ? init : Object.entries(init); for (const [k, v] of of) this.append(k, v); }
    append(k, v) { k = String(k).toLowerCase(); this.#m.set(k, this.#m.has(k) ? this.#m.get(k) + ", " + v : String(v)); }
    set(k, v) { this.#m.set(String(k).toLowerCase(), String(v)); }
    get(k) { return this.#m.get(String(k).toLowerCase()) ?? null; }
    has(k) { return this.#m.has(String(k).toLowerCase()); }
    delete(k) { this.#m.delete(String(k).toLowerCase()); }
    forEach(f, self) { for (const [k, v] of this) f.call(self, v, k, this); }
    entries() { return [...this.#m].sort((a, b) => (a[0] < b[0] ? -1 : 1))[Symbol.iterator](); }
    keys() { return [...this].map((e) => e[0])[Symbol.iterator](); }
    values() { return [...this].map((e) => e[1])[Symbol.iterator](); }
    [Symbol.iterator]() { return this.entries(); }
    toJSON() { return Object.fromEntries(this); }
  }
  class Response {
    #a;
    constructor(a, redirected) {
      this.#a = a; this.status = a.status; this.statusText = a.statusText; this.url = a.url; this.redirected = redirected;
      this.ok = a.status >= 200 && a.status < 300; this.headers = new Headers(a.headers); this.bodyUsed = false;
    }
    #take() { if (this.bodyUsed) throw new TypeError("the body of this response was read already: keep what the first read gave"); this.bodyUsed = true; return this.#a; }
    async text() { const a = this.#take(); return a.text ?? new TextDecoder().decode(fromBase64(a.base64 ?? "")); }
    async json() { return JSON.parse(await this.text()); }
    async bytes() { const a = this.#take(); return a.text !== undefined ? encode(a.text) : fromBase64(a.base64 ?? ""); }
    async arrayBuffer() { return (await this.bytes()).buffer; }
    toJSON() { return { status: this.status, url: this.url, headers: this.headers }; }
  }
  const bodyOf = (b, headers) => {
    if (b == null) return {};
    if (b instanceof URLSearchParams) { if (!headers.has("content-type")) headers.set("content-type", "application/x-www-form-urlencoded;charset=UTF-8"); return { body: String(b) }; }
    if (b instanceof ArrayBuffer) b = new Uint8Array(b);
    if (ArrayBuffer.isView(b)) return { body: toBase64(new Uint8Array(b.buffer, b.byteOffset, b.byteLength)), base64: true };
    if (typeof b !== "string") throw new TypeError("the body of fetch is a string, bytes or URLSearchParams: use JSON.stringify for other values");
    if (!headers.has("content-type")) headers.set("content-type", "text/plain;charset=UTF-8");
    return { body: b };
  };
  return async function fetch(input, init) {
    const { method = "GET", redirect = "follow", headers: given, body } = init ?? {};
    let url = String(input?.url ?? input), verb = String(method).toUpperCase(), headers = new Headers(given), rest = bodyOf(body, headers);
    if (rest.body !== undefined && (verb === "GET" || verb === "HEAD")) throw new TypeError("a request with method " + verb + " has no body");
    for (let hop = 0; ; hop++) {
      const reads = verb === "GET" || verb === "HEAD";
      const a = await call(reads ? "biplane.fetch" : "biplane.send", { url, method: verb, headers: headers.toJSON(), ...rest });
      const to = [301, 302, 303, 307, 308].includes(a.status) && a.headers.location;
      if (!to || redirect === "manual") return new Response(a, hop > 0);
      if (redirect === "error" || hop === 10) throw new TypeError(hop === 10 ? "more than 10 redirects" : url + " redirects to " + to);
      const next = new URL(to, a.url);
      if (next.origin !== new URL(a.url).origin) for (const k of ["authorization", "cookie"]) headers.delete(k);
      if (a.status === 303 && verb !== "HEAD" || a.status < 303 && verb === "POST") { verb = "GET"; rest = {}; headers.delete("content-type"); }
      url = String(next);
    }
  };
})() });
