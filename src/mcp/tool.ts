// What an MCP tool is: a name, words, a schema each for arguments and result, hints for the client, and
// the operation it calls. Whoever asks comes in as an Ask; rights are checked by the operations, as for
// REST. Failures are ServiceErrors. Contract: interface#mcp, decisions#mcp.
import { type Static, type TObject, type TProperties, type TSchema, Type } from '@sinclair/typebox';
import type { Caller } from '../access/caller.ts';
import type { App } from '../app.ts';

export type Profile = 'basic' | 'advanced';

/** A call of a tool: on whose behalf, by which request, and what the session allows. */
export interface ToolContext {
  readonly app: App;
  /** Carries the credential's headers, the tenant asked for, and the client's address. */
  readonly request: Request;
  readonly caller: Caller | null;
  /** The API document as this caller may use it. */
  describeApi(): Promise<Record<string, unknown>>;
  /** Makes a tenant the session's own; false where there is no session. */
  selectTenant(slug: string): Promise<boolean>;
}

/** Hints for clients, all four of them on every tool. */
export interface Hints {
  readOnlyHint: boolean;
  destructiveHint: boolean;
  idempotentHint: boolean;
  openWorldHint: boolean;
}

export interface Tool<I extends TObject = TObject> {
  name: string;
  title: string;
  description: string;
  profile: Profile;
  hints: Hints;
  input: I;
  /** The structured content: always an object. */
  output: TSchema;
  /** Set where no credential is asked for and none is heeded. */
  isOpen?: true;
  run(ask: ToolContext, input: Static<I>): Promise<object>;
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
  description: 'The slug of the tenant to work in; it may be left out where the credential belongs to a tenant.',
});

/** Arguments of a tool: those named, the optional `tenantSlug` of every tool, and no others. */
export function toolInput<P extends TProperties>(properties: P) {
  return Type.Object({ tenantSlug: Type.Optional(TENANT_SLUG), ...properties }, { additionalProperties: false });
}

/** A tool with its own types checked, and then as one of many. */
export function defineTool<I extends TObject>(definition: Tool<I>): Tool {
  return definition as unknown as Tool;
}

export const EntityName = Type.String({ minLength: 1, maxLength: 100, description: 'The name of the entity.' });
