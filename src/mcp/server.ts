// An MCP server of the official SDK with our tools on it: one for each HTTP request, one for a stdio
// connection. Arguments are checked against the tool's schema, every fault named; a tool's failure is a
// result marked `isError` that carries the envelope of REST, never a protocol error.
// Contract: decisions#mcp.
import { type CallToolResult, McpServer, type StandardSchemaWithJSON } from '@modelcontextprotocol/server';
import type { TObject, TSchema } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { requestIdOf } from '../access/request-context.ts';
import type { App } from '../app.ts';
import { invalid, type Problem, ServiceError, unauthorized } from '../errors.ts';
import { translate } from '../http/failures.ts';
import { errorBody } from '../http/reply.ts';
import { BOT_TOOLS } from './bot-tools.ts';
import { RECORD_TOOLS } from './record-tools.ts';
import { plainSchema } from './schema.ts';
import { TENANT_TOOLS } from './tenant-tools.ts';
import type { Profile, Tool, ToolContext } from './tool.ts';
import { WEBHOOK_TOOLS } from './webhook-tools.ts';

const TOOLS: readonly Tool[] = [...TENANT_TOOLS, ...RECORD_TOOLS, ...BOT_TOOLS, ...WEBHOOK_TOOLS];
const INFO = { name: 'tenant-data-service', title: 'Tenant Data Service', version: '0.1.0' };
const LISTS_KEPT_MS = 60_000;
const INSTRUCTIONS = `Records of a tenant's entities. Start with list_entities; query_records finds records by a condition. A super-admin
names the tenant by select_tenant or in the argument tenantSlug; any other credential belongs to one already.`;

/** Who asks, and the failure that settling it ended in: told by each tool that needs a credential. */
export interface OpenedToolContext {
  context: ToolContext;
  failure?: ServiceError;
}

/** Settles who asks in a tenant; without a slug in the one that is active. */
export type OpenToolContext = (tenantSlug: string | undefined) => Promise<OpenedToolContext>;

interface Prepared {
  tool: Tool;
  inputSchema: StandardSchemaWithJSON;
  outputSchema: StandardSchemaWithJSON;
}

/** Schemas are translated once; a server is made for every request. */
const PREPARED: readonly Prepared[] = TOOLS.map((tool) => ({
  tool,
  inputSchema: announced(tool.input),
  outputSchema: announced(tool.output),
}));

/** A server with the profile's tools. */
export function mcpServer(app: App, profile: Profile, enter: OpenToolContext): McpServer {
  const cacheHint = { ttlMs: LISTS_KEPT_MS, cacheScope: 'private' } as const;
  const server = new McpServer(INFO, {
    instructions: INSTRUCTIONS,
    capabilities: { tools: { listChanged: false } },
    cacheHints: { 'tools/list': cacheHint, 'server/discover': cacheHint },
  });
  for (const { tool, inputSchema, outputSchema } of PREPARED) {
    if (tool.profile === 'advanced' && profile === 'basic') continue;
    const { name, title, description, hints } = tool;
    server.registerTool(
      name,
      { title, description, inputSchema, outputSchema, annotations: { title, ...hints } },
      async (input: unknown) => call(app, tool, enter, input ?? {}),
    );
  }
  return server;
}

/** A schema as clients are told it; what it accepts is for `checked` to say, in our own words. */
function announced(schema: TSchema): StandardSchemaWithJSON {
  const plain = plainSchema(schema);
  return {
    '~standard': {
      version: 1,
      vendor: 'typebox',
      validate: (value: unknown) => ({ value }),
      jsonSchema: { input: () => plain, output: () => plain },
    },
  };
}

async function call(app: App, tool: Tool, enter: OpenToolContext, input: unknown): Promise<CallToolResult> {
  let requestId: string | undefined;
  try {
    const slug = (input as { tenantSlug?: unknown }).tenantSlug;
    const { context, failure } = await enter(typeof slug === 'string' ? slug : undefined);
    requestId = requestIdOf(context.request);
    if (tool.isOpen !== true) {
      if (failure !== undefined) throw failure;
      if (context.caller === null) throw unauthorized();
    }
    const result = (await tool.run(context, checked(tool.input, input))) as Record<string, unknown>;
    return { content: [{ type: 'text', text: JSON.stringify(result) }], structuredContent: result };
  } catch (error) {
    return failed(app, error, requestId);
  }
}

/** The arguments. 400 with every fault. */
function checked(schema: TObject, input: unknown): Record<string, unknown> {
  const problems = new Map<string, Problem>();
  for (const { path, message, schema: at } of Value.Errors(schema, input)) {
    const name = path.slice(1).replaceAll('/', '.') || 'arguments';
    const own = typeof at.error === 'string' ? at.error : message;
    if (!problems.has(name)) problems.set(name, { path: name, message: own });
  }
  if (problems.size > 0) throw invalid([...problems.values()]);
  return input as Record<string, unknown>;
}

function failed(app: App, error: unknown, requestId: string | undefined): CallToolResult {
  let known = translate(undefined, error);
  if (known === undefined) {
    app.log.error('a tool failed unexpectedly', { requestId, cause: error });
    known = new ServiceError('INTERNAL_ERROR', 'internal server error');
  }
  const text = JSON.stringify({ success: false, error: errorBody(known, requestId) });
  return { content: [{ type: 'text', text }], isError: true };
}
