// An MCP tool: name, description, schemas of arguments and result, hints for the client, and the operation it
// calls with the caller of its context. Operations check rights, as for REST. Failures are ServiceErrors.
// Contract: interface#mcp, decisions#mcp.
import { type Static, type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox';
import type { Caller, TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';

export type Profile = 'basic' | 'advanced';

/** Who may call a tool: anyone, any credential, any credential in a tenant, a tenant admin. */
export type ToolAccess = 'open' | 'any' | 'tenant' | 'admin';
type CallerOf<A extends ToolAccess> = A extends 'open' ? Caller | null : A extends 'any' ? Caller : TenantCaller;

export interface ToolContext<C extends Caller | null = Caller | null> {
  readonly app: App;
  /** Carries the credential, the tenant header and the client's address. */
  readonly request: Request;
  readonly caller: C;
  /** The API document, limited to what the caller may use, with one entity or all. */
  describeApi(entityName: string | undefined, detail: 'summary' | 'full'): Promise<Record<string, unknown>>;
  readonly session: SessionMemory;
}

/** Passes state from calls of a session to later ones; its functions return false without a session. */
export interface SessionMemory {
  selectTenant(slug: string): Promise<boolean>;
  /** Later calls act as the user whose token this is. */
  logIn(token: string): Promise<boolean>;
}

/** Hints for clients; every tool declares all four. */
export interface Hints {
  readOnlyHint: boolean;
  destructiveHint: boolean;
  idempotentHint: boolean;
  openWorldHint: boolean;
}

export interface Tool<I extends TObject = TObject, A extends ToolAccess = ToolAccess> {
  name: string;
  title: string;
  description: string;
  hints: Hints;
  input: I;
  /** The structured content: always an object. */
  output: TSchema;
  access: A;
  /** The text beside the structured content, in place of the same JSON. */
  text?: string;
  run(context: ToolContext<CallerOf<A>>, input: Static<I>): Promise<object>;
}

export const READS: Hints = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };
export const ADDS: Hints = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false };
export const REPLACES: Hints = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: true,
  openWorldHint: false,
};

export const TENANT_SLUG = Type.String({
  pattern: '^[A-Za-z0-9-]{1,100}$',
  description: 'The slug of the tenant to work in; optional when the credential belongs to a tenant.',
});

/** The schema of a tool's arguments; every tool also takes `tenantSlug`. */
export function toolInput<P extends TProperties>(properties: P) {
  return Type.Object({ tenantSlug: Type.Optional(TENANT_SLUG), ...properties }, { additionalProperties: false });
}

/** Checks the types of a tool's input and caller, then erases them. */
export function defineTool<I extends TObject, const A extends ToolAccess>(definition: Tool<I, A>): Tool {
  return definition as unknown as Tool;
}

/** The longest text that REST accepts in a URL: splitting a megabyte of names would take 200 ms. */
const QUERY_TEXT_MAX = 16_384;

/** An argument that is text in the query of the same call over REST. */
export function queryText(description: string) {
  return Type.String({ maxLength: QUERY_TEXT_MAX, description });
}

export const EntityName = Type.String({ minLength: 1, maxLength: 100, description: 'The name of the entity.' });
