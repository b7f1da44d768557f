-- The trace of the request that caused a change, as `traceparent`, a space and `tracestate` (src/runtime/trace.ts): its
-- webhook requests continue the trace. Null for a request without one.

alter table platform.events add column trace text;
alter table platform.webhook_deliveries add column trace text;
