// What is no plain request: WebSockets with random messages, MCP tools with random arguments, event streams read for a
// moment. Each resolves to everything that was received, or to a finding.
// A finding is a fault of the service: an internal error, or what the protocol does not have. Times are milliseconds.
import { setTimeout as delay } from 'node:timers/promises';
import { hinted } from './hints.ts';
import type { Schema } from './json.ts';
import type { Names } from './names.ts';
import type { Random } from './random.ts';
import { socketMessage } from './requests.ts';
import { jsonFor } from './values.ts';

const READ_MS = 150;
/** The code of a WebSocket that failed in the service. */
const INTERNAL = 1011;

/** Values of tools that are neither names nor described by a schema. */
const GIVEN: Record<string, string> = {
  data: '{"title":"from a tool"}',
  event_types: '["record.created"]',
  url: '"https://receiver.example/hooks"',
  as: '{"role":"partner"}',
  email: '"ada@example.com"',
};

export interface Received {
  text: string;
  succeeded: boolean;
  finding?: string;
}

/** Opens a WebSocket, sends up to eight messages, the first mostly a valid `auth`, and reads for a moment. */
export async function fuzzSocket(random: Random, url: string, token: string, names: Names): Promise<Received> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/ws`);
  const received: string[] = [];
  let closed: number | undefined;
  socket.onmessage = ({ data }) => void received.push(String(data));
  socket.onclose = ({ code }) => {
    closed = code;
  };
  const opened = Promise.withResolvers<boolean>();
  socket.onopen = () => opened.resolve(true);
  socket.onerror = () => opened.resolve(false);
  if (!(await opened.promise)) return { text: '', succeeded: false, finding: 'the WebSocket could not be opened' };
  const first = random.chance(0.9) ? [JSON.stringify({ type: 'auth', token })] : [];
  const messages = [...first, ...Array.from({ length: random.below(8) }, () => socketMessage(random, [token], names))];
  for (const message of messages) {
    if (closed !== undefined) break;
    socket.send(message);
    if (random.chance(0.3)) await delay(random.below(20));
  }
  await delay(READ_MS);
  socket.close();
  const text = received.join('\n');
  const isKnown = received.every((each) => typeof JSON.parse(each).type === 'string');
  const fault = closed === INTERNAL ? 'the WebSocket was closed with 1011' : undefined;
  const finding = isKnown ? fault : 'a message without a type';
  return {
    text,
    succeeded: text.includes('"subscribed"'),
    ...(finding && { finding: `${finding}: ${messages.join(' ')}` }),
  };
}

/** The body of a call of a random tool, out of those that the service lists. */
export function toolCall(random: Random, tools: readonly Schema[], names: Names): { name: string; body: string } {
  const tool = random.pick(tools);
  const properties = Object.entries<Schema>(tool.inputSchema.properties ?? {});
  const members = properties.flatMap(([name, schema]) => {
    const isWanted = tool.inputSchema.required?.includes(name) ? !random.chance(0.03) : random.chance(0.2);
    if (!isWanted) return [];
    const isAimed = random.chance(0.85);
    const hint = isAimed && schema.type === 'string' ? hinted(random, name, names) : undefined;
    const given = isAimed && Object.hasOwn(GIVEN, name) ? GIVEN[name] : undefined;
    const value = given ?? (hint === undefined ? jsonFor(random, schema, {}, names) : JSON.stringify(hint));
    return [`${JSON.stringify(name)}:${value}`];
  });
  const params = `{"name":${JSON.stringify(tool.name)},"arguments":{${members.join(',')}}}`;
  const body = `{"jsonrpc":"2.0","id":${random.below(100)},"method":"tools/call","params":${params}}`;
  return { name: tool.name, body };
}

/** What an event stream sends within a moment. */
export async function readStream(response: Response): Promise<Received> {
  let text = '';
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  const ends = Date.now() + READ_MS;
  while (reader !== undefined && Date.now() < ends) {
    const part = await Promise.race([reader.read(), delay(ends - Date.now(), null)]);
    if (part?.value === undefined) break;
    text += decoder.decode(part.value, { stream: true });
  }
  await reader?.cancel();
  const isStream = text === '' || text.startsWith('retry: ');
  return { text, succeeded: true, ...(!isStream && { finding: `no event stream: ${text.slice(0, 200)}` }) };
}
