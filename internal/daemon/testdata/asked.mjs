// A client of the TypeScript SDK with a person who approves: node asked.mjs CLIENT-MODULE URL KEY MODE CODE
import { pathToFileURL } from "node:url";
const [, , client, url, key, mode, code] = process.argv;
const { Client, StreamableHTTPClientTransport } = await import(pathToFileURL(client).href);
const c = new Client({ name: "ts", version: "1" }, { capabilities: { elicitation: {} }, versionNegotiation: { mode } });
const forms = [];
c.setRequestHandler("elicitation/create", async r => {
  forms.push(r.params.message);
  return { action: "accept", content: { decision: "as chosen below", call_1: "approve", call_2: "deny", note: "from a person" } };
});
await c.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } }));
const r = await c.callTool({ name: "execute", arguments: { code } });
console.log(JSON.stringify({ forms, text: r.content.map(b => b.text).join("\n") }));
await c.close();
