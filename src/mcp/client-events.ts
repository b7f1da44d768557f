// The last part of a generated client: webhook verification and the event stream. A string, like the runtime in
// client-runtime.ts; `Records`, `BASE_URL` and `TENANT` are generated in between. Uses only `fetch`, streams
// and Web Crypto. Contract: interface#mcp, decisions#sse.

/** Placed after the entity types in the generated file. */
export const CLIENT_EVENTS = `
export type RecordEventType = "record.created" | "record.updated" | "record.deleted";

/** An event as a webhook delivers it, with the whole record. */
export type WebhookEvent = {
  [Name in keyof Records]: {
    /** The same on every attempt: skip an id that you have already handled. */
    id: string;
    event: RecordEventType;
    entity: Name;
    record_id: string;
    data: Records[Name];
    timestamp: string;
    tenant_id: string;
  };
}[keyof Records];

/** An event as the event stream delivers it. */
export type RecordEvent = {
  [Name in keyof Records]: {
    id: string;
    type: RecordEventType;
    timestamp: string;
    tenant: string;
    entity: Name;
    record_id: string;
    data: { fields: Partial<Omit<Records[Name], SystemKey>>; triggered_by: string };
  };
}[keyof Records];

/** The event of a webhook request; throws unless the subscription's secret signed it within the tolerance. */
export async function verifyWebhook(
  secret: string,
  headers: Headers | { [name: string]: string | string[] | undefined },
  /** The raw body, not parsed. */
  body: string,
  toleranceSeconds = 300,
): Promise<WebhookEvent> {
  const header = (name: string) => String((headers instanceof Headers ? headers.get(name) : headers[name]) ?? "");
  const time = header("webhook-timestamp");
  if (!(Math.abs(Date.now() / 1000 - Number(time || NaN)) <= toleranceSeconds)) throw new Error("the timestamp is outside the tolerance");
  const bytes = (text: string) => new TextEncoder().encode(text);
  const decoded = (text: string) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const value = secret.startsWith("whsec_") ? decoded(secret.slice("whsec_".length)) : bytes(secret);
  const key = await crypto.subtle.importKey("raw", value, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const signed = bytes(\`\${header("webhook-id")}.\${time}.\${body}\`);
  for (const signature of header("webhook-signature").split(" ")) {
    const [version, code = ""] = signature.split(",");
    if (version === "v1" && (await crypto.subtle.verify("HMAC", key, decoded(code), signed))) return JSON.parse(body);
  }
  throw new Error("no signature matches the secret");
}

export interface EventOptions {
  /** Only events of these entities and types; default: all. */
  entities?: readonly (keyof Records)[];
  events?: readonly RecordEventType[];
  /** Called when the stream is open: every later event is delivered. */
  onOpen?: () => void;
  signal?: AbortSignal;
}

/**
 * Yields events until the stream ends. Then call it again, and read the records that may have changed in the
 * meantime. Needs an owner key or a platform key.
 */
export async function* recordEvents(client: ClientOptions, options: EventOptions = {}): AsyncGenerator<RecordEvent> {
  const { entities, events, onOpen, signal } = options;
  const base = (client.baseUrl ?? BASE_URL).replace(/\\/+$/, "");
  const url = new URL(\`\${base}/api/v1/tenants/\${TENANT}/events/stream\`);
  if (entities !== undefined) url.searchParams.set("entities", entities.join());
  if (events !== undefined) url.searchParams.set("events", events.join());
  const headers = { accept: "text/event-stream", ...client.headers };
  const request = client.fetch ?? fetch;
  const response = await request(url.href, { method: "GET", headers, ...(signal === undefined ? {} : { signal }) });
  if (!response.ok || response.body === null) throw await apiError(response);
  for await (const { event, data } of messages(response.body)) {
    if (event === "connected") onOpen?.();
    else if (event === "error") throw new ApiError(response.status, String(data.code), String(data.message));
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
