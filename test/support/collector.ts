// A collector of spans for tests: OTLP over HTTP on a free loopback port. It records the spans of JSON requests and
// answers as `answer` says.
import type { Json } from './service.ts';

export interface CollectedSpan {
  traceId: string;
  spanId: string;
  parentSpanId: string | undefined;
  name: string;
  /** 2 is a server, 3 a client, 4 a producer. */
  kind: number;
  attributes: Record<string, Json>;
  service: string;
}

export interface Collector {
  url: string;
  spans: CollectedSpan[];
  /** The headers of the last request. */
  headers: Headers;
  requests: number;
  answer: () => Response | Promise<Response>;
  /** The spans of a trace, once `isComplete` holds for them. */
  trace(traceId: string, isComplete: (spans: readonly CollectedSpan[]) => boolean): Promise<CollectedSpan[]>;
  stop(): Promise<void>;
}

export function startCollector(): Collector {
  const collector: Collector = {
    url: '',
    spans: [],
    headers: new Headers(),
    requests: 0,
    answer: () => Response.json({}),
    trace: async (traceId, isComplete) => {
      for (const endsAt = Date.now() + 60_000; ; await Bun.sleep(20)) {
        const spans = collector.spans.filter((span) => span.traceId === traceId);
        if (isComplete(spans)) return spans;
        if (Date.now() > endsAt) throw new Error(`incomplete trace: ${JSON.stringify(spans)}`);
      }
    },
    stop: () => server.stop(true),
  };
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      collector.requests += 1;
      collector.headers = request.headers;
      if (new URL(request.url).pathname === '/v1/traces') collector.spans.push(...spansIn(await request.json()));
      return collector.answer();
    },
  });
  collector.url = `http://127.0.0.1:${server.port}`;
  return collector;
}

function spansIn(body: Json): CollectedSpan[] {
  return body.resourceSpans.flatMap(({ resource, scopeSpans }: Json) =>
    scopeSpans.flatMap(({ spans }: Json) =>
      spans.map(({ traceId, spanId, parentSpanId, name, kind, attributes }: Json) => ({
        ...{ traceId, spanId, parentSpanId: parentSpanId || undefined, name, kind },
        attributes: valuesOf(attributes),
        service: valuesOf(resource.attributes)['service.name'],
      })),
    ),
  );
}

function valuesOf(attributes: Json): Record<string, Json> {
  return Object.fromEntries(attributes.map(({ key, value }: Json) => [key, Object.values(value)[0]]));
}
