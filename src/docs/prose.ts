// The words of the document that no single route owns: what the service is, its tags, its ways to
// authenticate, and the headers that many operations share. Contract: interface#authentication, decisions#answers,
// decisions#api-document.
import type { RequestHeader } from '../http/route.ts';
import { LIMITS } from '../limits.ts';
import type { JsonSchema } from './schema.ts';

export const TITLE = 'Tenant Data Service';

export const INTRODUCTION = `Multi-tenant records over REST, under one access rule.

Every JSON answer is in one envelope: \`{ "success": true, "data": ... }\`, or
\`{ "success": false, "error": { "code", "message", "requestId", "details"? } }\`, where \`details\` names every
invalid field at once. Ids are UUIDv7; timestamps are ISO 8601 in UTC with milliseconds.
This document is at [/swagger/json](/swagger/json).`;

/** Tags in the order of the document; a tag that no route uses is left out of it. */
export const TAGS: Readonly<Record<string, string>> = {
  Records: 'Records of an entity: list, read, create, change, delete, in bulk, as files, and summed up.',
  Entities: 'What records look like: entities and their fields.',
  Fields: 'The fields of an entity.',
  Views: 'Saved lists with conditions of their own.',
  Rules: 'What happens before and after a record changes.',
  Webhooks: 'Record events sent to other services, and the log of their deliveries.',
  Events: 'Record events as a stream.',
  Messages: 'Messages between agents.',
  Roles: 'Who may do what: permissions, visible fields and rows.',
  Users: 'The people of a tenant.',
  Invitations: 'Invitations to a tenant and to the platform.',
  Identity: 'Who is asking: sign-in, sessions, tokens.',
  Bots: 'Software agents with an identity and permissions of their own.',
  'Owner keys': 'API keys that act as the owner of a tenant.',
  'Public keys': 'Keys for browsers, with a role, origins and rate limits.',
  'Platform APIs': 'API definitions of a tenant, and their keys.',
  'Admin keys': 'Keys of the platform’s operators, with scopes, and the audit of their use.',
  Tenants: 'Tenants of the platform, and the settings of one’s own.',
  MCP: 'The tools of the Model Context Protocol.',
  Operations: 'Is the process up, can it serve, is its schema sound.',
  'API document': 'This document, and the page that shows it.',
};

const SLUG = { type: 'string', examples: ['acme'] };

/** Header parameters, by component name. */
export const HEADER_PARAMETERS: Readonly<Record<string, JsonSchema>> = {
  TenantId: {
    name: 'X-Tenant-ID',
    in: 'header',
    description: 'The slug of the tenant; needed with a credential that is bound to none, checked with any other.',
    schema: SLUG,
  },
  TenantSlug: {
    name: 'X-Tenant-Slug',
    in: 'header',
    description: 'The same as X-Tenant-ID, which wins.',
    schema: SLUG,
  },
  IfMatch: {
    name: 'If-Match',
    in: 'header',
    description: 'The ETag that the record must still have; 412 when it has another.',
    schema: { type: 'string' },
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    description: 'The ETag that is known already; 304 when it still holds.',
    schema: { type: 'string' },
  },
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    description: 'Makes a repetition with the same body answer as the first did, for 24 hours.',
    schema: { type: 'string', minLength: 1, maxLength: LIMITS.idempotency.keyMax },
  },
};

export const PARAMETER_OF: Readonly<Record<RequestHeader, string>> = {
  'If-Match': 'IfMatch',
  'If-None-Match': 'IfNoneMatch',
  'Idempotency-Key': 'IdempotencyKey',
};

/** Headers of answers, by component name; `RequestId` is on every one. */
export const RESPONSE_HEADERS: Readonly<Record<string, JsonSchema>> = {
  RequestId: {
    description: 'The request’s X-Request-Id, or one made for it.',
    required: true,
    schema: { type: 'string' },
  },
  RetryAfter: {
    description: 'Seconds to wait before the next try.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
  },
  RateLimit: {
    description: 'What is left of each limit in force: `"name";r=left;t=seconds`.',
    schema: { type: 'string' },
  },
  RateLimitPolicy: { description: 'The limits in force: `"name";q=quota;w=seconds`.', schema: { type: 'string' } },
  RateLimitQuota: { description: 'The quota of the tightest limit.', schema: { type: 'integer' } },
  RateLimitRemaining: { description: 'What is left of it.', schema: { type: 'integer' } },
  RateLimitReset: { description: 'When it starts anew, in Unix seconds.', schema: { type: 'integer' } },
};

/** Sent with a public key, and with every credential where RATE_LIMIT_PER_MIN is set. */
export const RATE_HEADERS: JsonSchema = {
  RateLimit: { $ref: '#/components/headers/RateLimit' },
  'RateLimit-Policy': { $ref: '#/components/headers/RateLimitPolicy' },
  'X-RateLimit-Limit': { $ref: '#/components/headers/RateLimitQuota' },
  'X-RateLimit-Remaining': { $ref: '#/components/headers/RateLimitRemaining' },
  'X-RateLimit-Reset': { $ref: '#/components/headers/RateLimitReset' },
};

/** Bodies that are not JSON, by content type. */
export const TEXT_EXAMPLES: Readonly<Record<string, string>> = {
  'text/csv': 'title,status,amount\r\nReplace the pump,open,120.5\r\n',
  'application/x-ndjson': '{"title":"Replace the pump","status":"open","amount":120.5}\n',
  'text/event-stream': 'event: heartbeat\nid: 1\ndata: {"type":"heartbeat","timestamp":"2026-03-01T09:30:00.000Z"}\n\n',
};
