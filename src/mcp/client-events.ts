// The part of a generated client that hears of changes: webhooks that it verifies, and the event stream.
// A text, like the prelude that it follows; `Records` and the client's address come with the entities.
// Uses `fetch`, streams and Web Crypto only. Contract: interface#mcp, decisions#sse.

/** Goes after the types of the entities. */
export const CLIENT_EVENTS = `
export type Change = "record.created" | "record.updated" | "record.deleted";

/** A change as a webhook tells it, with the whole record. */
export type WebhookEvent = {
  [Name in keyof Records]: {
    /** The same on every attempt: what has been seen before may be skipped. */
    id: string;
    event: Change;
    entity: Name;
    record_id: string;
    data: Records[Name];
    timestamp: string;
    tenant_id: string;
  };
}[keyof Records];

/** A change as the event stream tells it. */
export type RecordEvent = {
  [Name in keyof Records]: {
    id: string;
    type: Change;
    timestamp: string;
    tenant: string;
    entity: Name;
    record_id: string;
    data: { fields: Partial<Omit<Records[Name], SystemKey>>; triggered_by: string };
  };
}[keyof Records];

/** The event of a webhook's request; throws unless its subscription's secret has signed it, lately. */
export async function verifyWebhook(
  secret: string,
  headers: Headers | { [name: string]: string | string[] | undefined },
  /** As it came, not parsed. */
  body: string,
  toleranceSeconds = 300,
): Promise<WebhookEvent> {
  const header = (name: string) => String((headers instanceof Headers ? headers.get(name) : headers[name]) ?? "");
  const time = header("webhook-timestamp");
  if (!(Math.abs(Date.now() / 1000 - Number(time || NaN)) <= toleranceSeconds)) throw new Error("not signed lately");
  const bytes = (text: string) => new TextEncoder().encode(text);
  const decoded = (text: string) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const value = secret.startsWith("whsec_") ? decoded(secret.slice("whsec_".length)) : bytes(secret);
  const key = await crypto.subtle.importKey("raw", value, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const signed = bytes(\`\${header("webhook-id")}.\${time}.\${body}\`);
  for (const signature of header("webhook-signature").split(" ")) {
    const [version, code = ""] = signature.split(",");
    if (version === "v1" && (await crypto.subtle.verify("HMAC", key, decoded(code), signed))) return JSON.parse(body);
  }
  throw new Error("not signed with this secret");
}

export interface EventOptions {
  /** Those of these entities, and of these types, only. */
  entities?: readonly (keyof Records)[];
  events?: readonly Change[];
  /** Called when the stream is open: later changes will be told. */
  onOpen?: () => void;
  signal?: AbortSignal;
}

/**
 * Changes as they happen, until the stream ends; then call it anew, and look up what may have changed
 * meanwhile. For owner keys and platform keys.
 */
export async function* recordEvents(client: ClientOptions, options: EventOptions = {}): AsyncGenerator<RecordEvent> {
  const { entities, events, onOpen, signal } = options;
  const base = (client.baseUrl ?? BASE_URL).replace(/\\/+$/, "");
  const url = new URL(\`\${base}/api/v1/tenants/\${TENANT}/events/stream\`);
  if (entities !== undefined) url.searchParams.set("entities", entities.join());
  if (events !== undefined) url.searchParams.set("events", events.join());
  const headers = { accept: "text/event-stream", ...client.headers };
  const request = client.fetch ?? fetch;
  const answer = await request(url.href, { method: "GET", headers, ...(signal === undefined ? {} : { signal }) });
  if (!answer.ok || answer.body === null) throw await refusal(answer);
  for await (const { event, data } of messages(answer.body)) {
    if (event === "connected") onOpen?.();
    else if (event === "error") throw new ApiError(answer.status, String(data.code), String(data.message));
    else if (event.startsWith("record.")) yield data as unknown as RecordEvent;
  }
}

async function* messages(stream: ReadableStream<Uint8Array>) {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      const blocks = (rest + decoder.decode(part.value, { stream: true })).split("\\n\\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = /^event: (.*)$/m.exec(block)?.[1];
        const data = /^data: (.*)$/m.exec(block)?.[1];
        if (event !== undefined && data !== undefined) yield { event, data: JSON.parse(data) as { [name: string]: Json } };
      }
    }
  } finally {
    await reader.cancel();
  }
}
`;
