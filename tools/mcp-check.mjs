// Runs the official checkers of the Model Context Protocol against a running service. `conformance` is the conformance
// tool in both revisions, with mcp-baseline.yaml beside this file; `http` and `stdio` are the inspector, which lists
// the tools and calls each, over that transport. Run by Bun: the checkers need a newer Node.js than the service.
// Usage: mcp-check.mjs <node_modules with the checkers> <address> <super-admin secret> [conformance] [http] [stdio];
// the environment is the service's own (for stdio). The exit code is not 0 when a check failed.
import { spawn } from 'node:child_process';
import { createServer, request } from 'node:http';
import process from 'node:process';

const [modules, address, secret, ...parts] = process.argv.slice(2);
const CONFORMANCE = `${modules}/@modelcontextprotocol/conformance/dist/index.js`;
const INSPECTOR = `${modules}/@modelcontextprotocol/inspector/clients/launcher/build/index.js`;
const PERSON = { email: 'ada@example.com', name: 'Ada', role: 'member', password: 'correct horse battery' };
const slug = `mcp-${Date.now().toString(36)}`;
let failed = 0;

async function post(path, headers, body) {
  const sent = { 'content-type': 'application/json', ...headers };
  const answer = await fetch(address + path, { method: 'POST', headers: sent, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
  return (await answer.json()).data;
}

/** Runs a program with Bun; resolves to its exit code and output. */
function run(parameters, environment = {}) {
  return new Promise((resolve) => {
    const env = { ...process.env, NO_COLOR: '1', ...environment };
    const child = spawn(process.execPath, ['--no-env-file', ...parameters], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    const text = { output: '', errors: '' };
    child.stdout.on('data', (chunk) => (text.output += chunk));
    child.stderr.on('data', (chunk) => (text.errors += chunk));
    child.on('close', (code) => resolve({ code, ...text }));
  });
}

function report(isGood, what, details) {
  console.log(`${isGood ? 'ok' : 'FAILED'}: ${what}`);
  if (isGood) return;
  failed++;
  console.log(details);
}

/** A proxy that adds the credential, which the conformance tool cannot send, and the host name that the service expects. */
async function openProxy(key) {
  const { hostname, port: to } = new URL(address);
  const proxy = createServer((incoming, outgoing) => {
    const headers = { ...incoming.headers, 'x-api-key': key };
    for (const name of ['host', 'origin'])
      if (headers[name]) headers[name] = headers[name].replace(`:${port}`, `:${to}`);
    const options = { hostname, port: to, path: incoming.url, method: incoming.method, headers };
    const passed = request(options, (answer) => {
      outgoing.writeHead(answer.statusCode, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on('error', () => outgoing.destroy());
    incoming.pipe(passed);
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const { port } = proxy.address();
  return { url: `http://127.0.0.1:${port}/mcp`, close: () => proxy.close() };
}

async function conform(key) {
  const { url, close } = await openProxy(key);
  const baseline = ['--expected-failures', `${import.meta.dirname}/mcp-baseline.yaml`];
  for (const revision of ['2025-11-25', '2026-07-28']) {
    const what = ['--suite', 'all', '--spec-version', revision];
    const { code, output, errors } = await run([CONFORMANCE, 'server', '--url', url, ...what, ...baseline]);
    const total = /^Total: .*$/m.exec(output)?.[0] ?? '';
    report(code === 0 && total !== '', `conformance ${revision}, ${total}`, output.slice(-3_000) + errors);
  }
  close();
}

/** Runs the inspector once; `credential` is a key or a token. Resolves to its JSON output. */
async function inspect(transport, credential, method, ...parameters) {
  const stdio = { SVC_CREDENTIAL: credential, SVC_MCP_PROFILE: 'advanced', LOG_LEVEL: 'error' };
  const variables = Object.entries(stdio).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
  const given = ['DATABASE_URL', 'REDIS_URL', 'ADMIN_SECRET', 'JWT_SECRET', 'DATA_DIR'];
  for (const name of given) if (process.env[name]) variables.push('-e', `${name}=${process.env[name]}`);
  const server =
    transport === 'stdio'
      ? [process.execPath, '--no-env-file', 'src/mcp-stdio.ts', ...variables]
      : [`${address}/mcp?profile=advanced`, '--transport', 'http', '--header', `Authorization: Bearer ${credential}`];
  const { code, output, errors } = await run([INSPECTOR, '--cli', ...server, '--method', method, ...parameters]);
  const answer = code === 0 ? JSON.parse(output) : { isError: true };
  report(code === 0 && answer.isError !== true, `${transport} ${method} ${parameters[1] ?? ''}`, output + errors);
  return answer;
}

/** Calls every tool, in an order in which each finds the data it needs. */
async function callAll(transport, key) {
  const { tools } = await inspect(transport, key, 'tools/list');
  const left = new Set(tools.map(({ name }) => name));
  const call = async (name, input = {}, credential = key) => {
    left.delete(name);
    const values = Object.entries(input).map(([k, v]) => `${k}=${typeof v === 'string' ? v : JSON.stringify(v)}`);
    const parameters = values.flatMap((value) => ['--tool-arg', value]);
    return (await inspect(transport, credential, 'tools/call', '--tool-name', name, ...parameters)).structuredContent;
  };
  const entity_name = 'note';
  await call('tenant_login', { tenantSlug: slug, email: PERSON.email, password: PERSON.password });
  for (const name of ['list_entities', 'get_rest_api_spec', 'generate_api_client', 'list_bots']) await call(name);
  await call('select_tenant', { tenantSlug: slug });
  const made = await call('create_record', { entity_name, data: { title: transport } });
  const record = { entity_name, record_id: made?.record?.id ?? made?.id };
  await call('query_records', { entity_name, filters: `title = ${transport}` });
  await call('get_record', record);
  await call('update_record', { ...record, data: { title: 'changed' } });
  await call('get_history', record);
  await call('delete_record', record);
  await call('get_changes', { since: 'earliest' });
  await call('explain_access', { as: { role: 'viewer' }, operation: 'delete', entity: entity_name });
  const bot = await call('register_bot', { name: `bot-${transport}`, permissions: { entities: { note: ['read'] } } });
  const { token } = await call('identify_bot', { name: `bot-${transport}`, secret: bot.secret });
  await call('whoami_bot', {}, token);
  await call('revoke_bot', { bot_id: bot.id });
  const hook = { entity_name, event_types: ['record.created'], url: `https://93.184.215.14/${transport}` };
  const { id: webhook_id } = await call('create_webhook', hook);
  await call('list_webhooks', { entity_name });
  await call('delete_webhook', { webhook_id });
  report(left.size === 0, `${transport}: every tool was called`, [...left].join(', '));
}

const { apiKey } = await post('/api/admin/platform/tenants', { 'x-admin-secret': secret }, { slug, name: slug });
const owner = { 'x-api-key': apiKey };
await post('/api/entities', owner, { name: 'note', fields: [{ key: 'title', type: 'text' }] });
await post('/api/users', owner, PERSON);
for (const part of parts) {
  if (part === 'conformance') await conform(apiKey);
  else await callAll(part, apiKey);
}
process.exit(failed === 0 ? 0 : 1);
