// An agent's client that signs in, with the SDK of MCP for TypeScript: URL of the server, folder of the SDK. It knows nothing else:
// who gives out tokens, and with which scope, it finds out.
const [url, sdk] = process.argv.slice(2);
const { Client } = await import(sdk + "/client/index.js");
const { StreamableHTTPClientTransport } = await import(sdk + "/client/streamableHttp.js");

let verifier, tokens, asked;
const provider = {
  redirectUrl: "http://127.0.0.1:1/callback",
  clientMetadata: { client_name: "agent", redirect_uris: ["http://127.0.0.1:1/callback"] },
  clientInformation: () => ({ client_id: "agent-ts" }),
  tokens: () => tokens,
  saveTokens: (t) => { tokens = t; },
  saveCodeVerifier: (v) => { verifier = v; },
  codeVerifier: () => verifier,
  redirectToAuthorization: (u) => { asked = u; },
};
const connect = async () => {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  const client = new Client({ name: "signin", version: "1" });
  try {
    await client.connect(transport);
  } catch (err) {
    return { transport, err };
  }
  return { transport, client };
};
const first = await connect();
if (!first.err || !asked) throw new Error("not asked to sign in: " + first.err);
const back = await fetch(asked, { redirect: "manual" });
await first.transport.finishAuth(new URL(back.headers.get("location")).searchParams.get("code"));
const { client, err } = await connect();
if (err) throw err;
const result = await client.callTool({ name: "execute", arguments: { code: "40 + 2" } });
console.log(JSON.stringify({ scope: asked.searchParams.get("scope"), resource: asked.searchParams.get("resource"), text: result.content[0].text }));
await client.close();
