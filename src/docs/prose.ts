// The prose of the document that belongs to no single route: the introduction, the tags, and the headers that
// many operations share.
// Contract: interface#authentication, decisions#responses, decisions#api-document.
import type { RequestHeader } from '../http/route.ts';
import { LIMITS } from '../limits.ts';
import type { JsonSchema } from './schema.ts';

export const TITLE = 'Tenant Data Service';

export const INTRODUCTION = `Multi-tenant records over REST, under one access rule.

Every JSON answer is in one envelope: \`{ "success": true, "data": ... }\`, or
\`{ "success": false, "error": { "code", "message", "requestId", "details"? } }\`, where \`details\` names every
invalid field at once. Ids are UUIDv7; timestamps are ISO 8601 in UTC with milliseconds.
This document is at [/swagger/json](/swagger/json).`;

/** Tags in the order of the document, which leaves out unused ones. */
export const TAGS: Readonly<Record<string, string>> = {
  Records: 'Records of an entity: list, read, create, change, delete, bulk, import, export, aggregates.',
  Entities: 'Definitions of entities and their fields.',
  Fields: 'The fields of an entity.',
  Views: 'Saved filters on an entity, with their own permission.',
  Rules: 'Business rules that run before or after a record changes.',
  Webhooks: 'Record events sent to other services, and the delivery log.',
  Events: 'Record events as a stream.',
  Messages: 'Messages between agents.',
  Roles: 'Permissions, visible fields and visible rows.',
  Users: 'The people of a tenant.',
  Invitations: 'Invitations to a tenant and to the platform.',
  Identity: 'Sign-in, sessions, tokens.',
  Bots: 'Software agents with an identity and permissions of their own.',
  'Owner keys': 'API keys that act as the owner of a tenant.',
  'Public keys': 'Keys for browsers, with a role, origins and rate limits.',
  'Platform APIs': 'API definitions of a tenant, and their keys.',
  'Admin keys': 'Keys of the platform’s operators, with scopes, and the audit of their use.',
  Tenants: 'Tenants of the platform, and the settings of the caller’s own.',
  MCP: 'The tools of the Model Context Protocol.',
  Operations: 'Liveness, readiness, metrics, schema health.',
  'API document': 'This document, and the page that shows it.',
};

const SLUG = { type: 'string', examples: ['acme'] };

/** Header parameters, by component name. */
export const HEADER_PARAMETERS: Readonly<Record<string, JsonSchema>> = {
  TenantId: {
    name: 'X-Tenant-ID',
    in: 'header',
    description:
      'The slug of the tenant. Required with a credential that belongs to no tenant; must match with any other.',
    schema: SLUG,
  },
  TenantSlug: {
    name: 'X-Tenant-Slug',
    in: 'header',
    description: 'Same as X-Tenant-ID, which takes precedence.',
    schema: SLUG,
  },
  IfMatch: {
    name: 'If-Match',
    in: 'header',
    description: 'The ETag that the record must have; otherwise 412.',
    schema: { type: 'string' },
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    description: 'The ETag that the client has; 304 if the record still has it.',
    schema: { type: 'string' },
  },
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    description: 'A repeated request with the same body gets the first answer again, for 24 hours.',
    schema: { type: 'string', minLength: 1, maxLength: LIMITS.idempotency.keyMax },
  },
};

export const PARAMETER_OF: Readonly<Record<RequestHeader, string>> = {
  'If-Match': 'IfMatch',
  'If-None-Match': 'IfNoneMatch',
  'Idempotency-Key': 'IdempotencyKey',
};

/** Response headers, by component name; every response has `RequestId`. */
export const RESPONSE_HEADERS: Readonly<Record<string, JsonSchema>> = {
  RequestId: {
    description: 'The request’s X-Request-Id, or a generated one.',
    required: true,
    schema: { type: 'string' },
  },
  RetryAfter: {
    description: 'Seconds to wait before a retry.',
    required: true,
    schema: { type: 'integer', minimum: 1 },
  },
  RateLimit: {
    description: 'What remains of each limit: `"name";r=remaining;t=seconds`.',
    schema: { type: 'string' },
  },
  RateLimitPolicy: { description: 'The limits: `"name";q=quota;w=seconds`.', schema: { type: 'string' } },
  RateLimitQuota: { description: 'The quota of the tightest limit.', schema: { type: 'integer' } },
  RateLimitRemaining: { description: 'What remains of it.', schema: { type: 'integer' } },
  RateLimitReset: { description: 'When it resets, in Unix seconds.', schema: { type: 'integer' } },
};

/** Response headers for a public key and, if RATE_LIMIT_PER_MIN is set, for every credential. */
export const RATE_HEADERS: JsonSchema = {
  RateLimit: { $ref: '#/components/headers/RateLimit' },
  'RateLimit-Policy': { $ref: '#/components/headers/RateLimitPolicy' },
  'X-RateLimit-Limit': { $ref: '#/components/headers/RateLimitQuota' },
  'X-RateLimit-Remaining': { $ref: '#/components/headers/RateLimitRemaining' },
  'X-RateLimit-Reset': { $ref: '#/components/headers/RateLimitReset' },
};

/** Bodies that are not JSON, by content type. */
export const TEXT_EXAMPLES: Readonly<Record<string, string>> = {
  'text/csv': 'title,country,employees\r\nNordlicht,DE,12\r\n',
  'application/x-ndjson': '{"title":"Nordlicht","country":"DE","employees":12}\n',
  'text/event-stream': 'event: heartbeat\nid: 1\ndata: {"type":"heartbeat","timestamp":"2026-03-01T09:30:00.000Z"}\n\n',
};
