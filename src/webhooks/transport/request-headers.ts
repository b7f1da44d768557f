// The headers of a webhook request, signed over the body. The body is rendered once, and every attempt sends the same bytes.
// Signature timestamps are seconds.
// Contract: decisions#webhook-requests.
import { createHmac } from 'node:crypto';

export interface Attempt {
  deliveryId: string;
  eventId: string;
  type: string;
  /** 1 for the first. */
  number: number;
  body: string;
  /** The newest first; none for a subscription without a secret. */
  secrets: readonly string[];
  isTest: boolean;
}

/** Signed when the subscription has a secret. While the secret is being changed, the Standard Webhooks header has both signatures. */
export function requestHeaders(attempt: Attempt, nowMs = Date.now()): Record<string, string> {
  const { deliveryId, type, number, body, secrets, isTest } = attempt;
  return {
    'Content-Type': 'application/json',
    'Content-Length': String(Buffer.byteLength(body)),
    'User-Agent': 'tenant-data-service-webhooks/1',
    'X-Svc-Event': type,
    'X-Svc-Delivery': deliveryId,
    'X-Svc-Attempt': String(number),
    ...(isTest ? { 'X-Svc-Test': 'true' } : {}),
    ...(secrets.length === 0 ? {} : signatures(attempt, Math.floor(nowMs / 1_000))),
  };
}

function signatures({ eventId, body, secrets }: Attempt, timestamp: number): Record<string, string> {
  const id = `evt_${eventId}`;
  const signed = secrets.map((secret) => {
    const hmac = createHmac('sha256', standardKey(secret)).update(`${id}.${timestamp}.`);
    return `v1,${hmac.update(body).digest('base64')}`;
  });
  return {
    'X-Svc-Signature': createHmac('sha256', secrets[0] as string)
      .update(body)
      .digest('hex'),
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signed.join(' '),
  };
}

/** The key of the Standard Webhooks signature: base64 after `whsec_`, otherwise the secret's bytes. */
function standardKey(secret: string): Buffer {
  return secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : Buffer.from(secret);
}
