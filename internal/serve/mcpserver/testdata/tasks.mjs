// Uses tasks of revision 2025-11-25 with the TypeScript SDK, and prints what it saw.
// Arguments: the folder of the SDK, and the address of the server.
const [sdk, url] = process.argv.slice(2);
const load = (file) => import(`${sdk}/dist/esm/${file}.js`);
const { Client } = await load("client/index");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp");
const types = await load("types");

const seen = { messages: [], related: [], notified: [] };
const client = new Client({ name: "typescript", version: "1" }, { capabilities: { elicitation: { form: {} } } });
client.setRequestHandler(types.ElicitRequestSchema, async (request) => {
  seen.related.push(request.params._meta?.["io.modelcontextprotocol/related-task"]?.taskId);
  return { action: "accept", content: { x: "blue" } };
});
client.setNotificationHandler(types.TaskStatusNotificationSchema, (n) => {
  seen.notified.push(n.params.taskId);
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const { tools } = await client.listTools();
seen.support = tools.map((t) => t.execution?.taskSupport);
const { tasks } = client.experimental;
const call = { name: "up_echo", arguments: {} };
for await (const m of tasks.callToolStream(call, types.CallToolResultSchema, { task: { ttl: 60000 } })) {
  if (m.type === "taskCreated") {
    seen.id = m.task.taskId;
  }
  if (seen.messages.at(-1) !== m.type) {
    seen.messages.push(m.type);
  }
  seen.text = m.result?.content[0].text ?? m.error?.message;
}
seen.status = (await tasks.getTask(seen.id)).status;
seen.again = (await tasks.getTaskResult(seen.id, types.CallToolResultSchema)).content[0].text === seen.text;
seen.listed = (await tasks.listTasks()).tasks.map((t) => t.taskId);
seen.refused = await tasks.cancelTask(seen.id).catch((e) => e.code);
await client.close();
console.log(JSON.stringify(seen));
