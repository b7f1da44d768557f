// Exports spans by OTLP over HTTP (JSON) with the OpenTelemetry SDK, which reads the standard variables OTEL_*. Loaded only
// when an endpoint is configured. The parent of a span is passed explicitly: a request's is in its `Work`. Spans are
// sent in batches from a bounded queue; what a slow or unreachable collector does not take is dropped, with a warning at
// most once a minute. Spans contain no values of statements, no bodies and no credentials. Times are milliseconds.
// Contract: neighbours#who-does-what, decisions#configuration.
import process from 'node:process';
import {
  type Attributes,
  type Context,
  createTraceState,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace as traces,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import type { Log } from './log.ts';
import type { Trace } from './trace.ts';
import { within } from './within.ts';

const WARN_EVERY_MS = 60_000;
const CLOSE_MS = 2_000;
const KINDS = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
} as const;

/** A span in progress. */
export interface ActiveSpan {
  /** The trace context for its children. */
  readonly trace: Trace;
  /** `error` is a short label, such as an error's code; undefined means success. */
  end(result: { name?: string; attributes?: Attributes; error?: string | undefined }): void;
}

export class Tracing {
  readonly #provider: BasicTracerProvider;
  readonly #tracer: Tracer;

  /** `environment` contains the variables OTEL_*. Throws for values that the SDK does not accept. */
  constructor(
    environment: Readonly<Record<string, string>>,
    private readonly log: Log,
  ) {
    diag.setLogger(this.#warnings(), { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
    this.#provider = withEnvironment(environment, () => {
      const named = resourceFromAttributes({ 'service.name': 'tenant-data-service' });
      const resource = defaultResource()
        .merge(named)
        .merge(detectResources({ detectors: [envDetector] }));
      return new BasicTracerProvider({ resource, spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
    });
    this.#tracer = this.#provider.getTracer('tenant-data-service');
  }

  /** Starts a span; without a parent it begins a trace. */
  start(kind: keyof typeof KINDS, name: string, parent: Trace | null, attributes: Attributes = {}): ActiveSpan {
    const span = this.#tracer.startSpan(name, { kind: KINDS[kind], attributes }, contextOf(parent));
    return { trace: traceOfSpan(span), end: (result) => finish(span, result) };
  }

  /** A span that has just ended and took `durationMs`. Nothing for a trace that is not sampled. */
  record(kind: keyof typeof KINDS, name: string, parent: Trace, durationMs: number, attributes: Attributes): void {
    if (!parent.isSampled) return;
    const endTime = Date.now();
    const startTime = endTime - durationMs;
    this.#tracer.startSpan(name, { kind: KINDS[kind], attributes, startTime }, contextOf(parent)).end(endTime);
  }

  /** Sends the remaining spans, for two seconds at most. */
  async close(): Promise<void> {
    await within(CLOSE_MS, this.#provider.shutdown()).catch((error: unknown) => {
      this.log.warn('some spans could not be sent', { error });
    });
  }

  /** The SDK's warnings, such as failed exports. */
  #warnings() {
    let silentUntil = 0;
    const warn = (message: string, ...details: unknown[]): void => {
      if (Date.now() < silentUntil) return;
      silentUntil = Date.now() + WARN_EVERY_MS;
      const text = [message, ...details.map((detail) => (detail instanceof Error ? detail.message : String(detail)))];
      this.log.warn('spans could not be sent', { reason: text.join(' ').slice(0, 500) });
    };
    const ignore = (): void => undefined;
    return { error: warn, warn, info: ignore, debug: ignore, verbose: ignore };
  }
}

function finish(span: Span, { name, attributes, error }: Parameters<ActiveSpan['end']>[0]): void {
  if (name !== undefined) span.updateName(name);
  if (attributes !== undefined) span.setAttributes(attributes);
  if (error !== undefined) {
    span.setAttribute('error.type', error);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
  span.end();
}

function traceOfSpan(span: Span): Trace {
  const { traceId, spanId, traceFlags, traceState } = span.spanContext();
  const isSampled = (traceFlags & TraceFlags.SAMPLED) === TraceFlags.SAMPLED;
  return { traceId, spanId, isSampled, state: traceState?.serialize() || null };
}

function contextOf(parent: Trace | null): Context {
  if (parent === null) return ROOT_CONTEXT;
  const { traceId, spanId, isSampled, state } = parent;
  const traceFlags = isSampled ? TraceFlags.SAMPLED : TraceFlags.NONE;
  const context: SpanContext = { traceId, spanId, traceFlags, isRemote: true };
  if (state !== null) context.traceState = createTraceState(state);
  return traces.setSpanContext(ROOT_CONTEXT, context);
}

/** The SDK reads the process environment, which lacks what a `.env` file sets. It reads while it is constructed only. */
function withEnvironment<T>(variables: Readonly<Record<string, string>>, construct: () => T): T {
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, variables);
  try {
    return construct();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}
