// The MCP server: the official SDK with the tools of this service, one server per HTTP request or stdio
// connection. Arguments are validated against the tool's schema. A tool's failure is a result with `isError`
// and the error envelope of REST, never a protocol error. Contract: decisions#mcp.
import { type CallToolResult, McpServer, type StandardSchemaWithJSON } from '@modelcontextprotocol/server';
import type { TSchema } from '@sinclair/typebox';
import { requireTenant, requireTenantAdmin, type TenantCaller } from '../access/caller.ts';
import { requestIdOf } from '../access/request-context.ts';
import type { App } from '../app.ts';
import { unauthorized } from '../errors.ts';
import { check } from '../http/check.ts';
import { reported } from '../http/failures.ts';
import { errorBody } from '../http/reply.ts';
import { asCall } from '../runtime/work.ts';
import { ACCESS_TOOLS } from './access-tools.ts';
import { BOT_TOOLS } from './bot-tools.ts';
import { CHANGE_TOOLS } from './change-tools.ts';
import { RECORD_TOOLS } from './record-tools.ts';
import { plainSchema } from './schema.ts';
import { TENANT_TOOLS } from './tenant-tools.ts';
import type { Profile, Tool, ToolContext } from './tool.ts';
import type { OpenToolContext } from './tool-context.ts';
import type { ToCallResult } from './tool-results.ts';
import { WEBHOOK_TOOLS } from './webhook-tools.ts';

const BASIC: readonly Tool[] = [...TENANT_TOOLS, ...RECORD_TOOLS, ...CHANGE_TOOLS, ...ACCESS_TOOLS, ...BOT_TOOLS];
const INFO = { name: 'tenant-data-service', title: 'Tenant Data Service', version: '0.1.0' };
const LIST_TTL_MS = 60_000;
const INSTRUCTIONS = `Records of a tenant's entities. Start with list_entities; query_records finds records by a condition. A super-admin
names the tenant with select_tenant or in the argument tenantSlug; every other credential belongs to a tenant.`;

/** The tools by profile. Schemas are converted once, because every request has its own server. */
const TOOLS = {
  basic: BASIC.map(withSchemas),
  advanced: [...BASIC, ...WEBHOOK_TOOLS].map(withSchemas),
} satisfies Record<Profile, unknown>;

function withSchemas(tool: Tool) {
  return { tool, inputSchema: sdkSchema(tool.input), outputSchema: sdkSchema(tool.output) };
}

/** A server with the profile's tools. */
export function mcpServer(app: App, profile: Profile, open: OpenToolContext, toCallResult: ToCallResult): McpServer {
  const cacheHint = { ttlMs: LIST_TTL_MS, cacheScope: 'private' } as const;
  const server = new McpServer(INFO, {
    instructions: INSTRUCTIONS,
    capabilities: { tools: { listChanged: false } },
    cacheHints: { 'tools/list': cacheHint, 'server/discover': cacheHint },
  });
  for (const { tool, inputSchema, outputSchema } of TOOLS[profile]) {
    const { name, title, description, hints } = tool;
    server.registerTool(
      name,
      { title, description, inputSchema, outputSchema, annotations: { title, ...hints } },
      // The request's call has ended once its response is a stream.
      async (input: unknown) => asCall(() => callTool(app, tool, open, toCallResult, input ?? {})),
    );
  }
  return server;
}

/** A schema for the SDK to show to clients. It validates nothing: `callTool` does, with this service's messages. */
function sdkSchema(schema: TSchema): StandardSchemaWithJSON {
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

async function callTool(
  app: App,
  tool: Tool,
  open: OpenToolContext,
  toCallResult: ToCallResult,
  input: unknown,
): Promise<CallToolResult> {
  let requestId: string | undefined;
  try {
    const slug = (input as { tenantSlug?: unknown }).tenantSlug;
    const { context, failure } = await open(typeof slug === 'string' ? slug : undefined);
    requestId = requestIdOf(context.request);
    if (tool.access !== 'open' && context.caller === null) throw failure ?? unauthorized();
    const checked = check(tool.input, input);
    if (tool.access === 'tenant') requireTenant(context.caller);
    if (tool.access === 'admin') requireTenantAdmin(context.caller);
    return await toCallResult(await tool.run(context as ToolContext<TenantCaller>, checked), tool.text);
  } catch (error) {
    return failureResult(app, error, requestId);
  }
}

function failureResult(app: App, error: unknown, requestId: string | undefined): CallToolResult {
  const known = reported(app, error, { requestId, unexpected: 'unexpected tool failure' });
  const text = JSON.stringify({ success: false, error: errorBody(known, requestId) });
  return { content: [{ type: 'text', text }], isError: true };
}
