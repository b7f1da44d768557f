// Verifies the requests of webhooks by the headers of Standard Webhooks, with Web Crypto. One of several signatures must match
// the secret: while a secret is being replaced, the service signs with both.
// Contract: decisions#webhook-requests.
import { ApiError } from './errors.ts';
import type { NameOf, Stored } from './schema.ts';

/** The body that a webhook sends. */
export type WebhookEvent<Schema> = {
  [Name in NameOf<Schema>]: {
    /** The same on every attempt: skip an id that you have already handled. */
    id: string;
    entity: Name;
    record_id: string;
    /** The time of the event, in ISO 8601. */
    timestamp: string;
    tenant_id: string;
    /** With `include: ["cursor"]`: the cursor from which the feed continues. */
    cursor?: string;
    /** True for a test event. */
    test?: true;
  } & (
    | {
        event: 'record.created' | 'record.updated';
        data: Stored<Schema, Name>;
        /** With `include: ["previous"]`: the former values of the changed fields. */
        previous?: Partial<Stored<Schema, Name>>;
      }
    | { event: 'record.deleted'; data: { id: string } & Partial<Stored<Schema, Name>> }
  );
}[NameOf<Schema>];

export type WebhookHeaders = Headers | { readonly [name: string]: string | readonly string[] | undefined };

const PREFIX = 'whsec_';
const TOLERANCE_S = 300;

/** The event of a request; throws an `ApiError` with status 401 unless the secret signed the raw body within the tolerance. */
export async function verifyWebhook<Schema>(
  secret: string,
  headers: WebhookHeaders,
  /** The body as it came, not parsed. */
  body: string,
  { toleranceSeconds = TOLERANCE_S }: { toleranceSeconds?: number } = {},
): Promise<WebhookEvent<Schema>> {
  const time = headerOf(headers, 'webhook-timestamp');
  const isRecent = /^\d+$/.test(time) && Math.abs(Date.now() / 1_000 - Number(time)) <= toleranceSeconds;
  if (!isRecent) throw unauthentic('the timestamp is outside the tolerance');
  const signed = bytesOf(`${headerOf(headers, 'webhook-id')}.${time}.${body}`);
  const value = secret.startsWith(PREFIX) ? decoded(secret.slice(PREFIX.length)) : bytesOf(secret);
  if (value === null) throw new TypeError('the secret after whsec_ is not Base64');
  const key = await crypto.subtle.importKey('raw', value, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
  for (const signature of headerOf(headers, 'webhook-signature').split(' ')) {
    const [version, code = ''] = signature.split(',');
    const bytes = version === 'v1' ? decoded(code) : null;
    if (bytes !== null && (await crypto.subtle.verify('HMAC', key, bytes, signed))) return JSON.parse(body);
  }
  throw unauthentic('no signature matches the secret');
}

function unauthentic(message: string): ApiError {
  return new ApiError({ status: 401, code: 'UNAUTHORIZED', message });
}

function headerOf(headers: WebhookHeaders, name: string): string {
  if (headers instanceof Headers) return headers.get(name) ?? '';
  const found = Object.entries(headers).find(([other]) => other.toLowerCase() === name);
  return String(found?.[1] ?? '');
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

/** The bytes; null for a text that is not Base64, such as a forged signature. */
function decoded(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}
