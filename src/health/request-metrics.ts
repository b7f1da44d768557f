// How long requests take, by method, route template and status: never by a path as it was sent, which
// would tell ids and let anybody fill the memory. Measured until the answer's headers; seconds.
// Costs well under a microsecond a request. Contract: decisions#metrics.
import type { App } from '../app.ts';
import type { Series } from '../runtime/metrics.ts';

interface Place {
  children: Map<string, Place>;
  /** What follows where the template has a parameter, and the template that takes all that is left. */
  parameter: Place | null;
  rest: Template | null;
  template: Template | null;
}

/** A route's path as declared, and its series by method and status. */
class Template {
  readonly series = new Map<string, Map<number, Series>>();
  constructor(readonly path: string) {}
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const OTHER_METHOD = '_OTHER';

/** The function that notes an answered request. */
export function requestMetrics(app: App, routes: readonly { path: string }[]) {
  const durations = app.metrics.histogram(
    'http_server_request_duration_seconds',
    'Duration of HTTP requests until the headers of their answers.',
    ['http_request_method', 'http_route', 'http_response_status_code'],
  );
  const root = newPlace();
  for (const { path } of routes) if (path !== '/*') insert(root, path);
  const unknown = new Template('');
  return (method: string, url: string, status: number, durationMs: number): void => {
    const template = find(root, url) ?? unknown;
    const name = METHODS.has(method) ? method : OTHER_METHOD;
    const byStatus = template.series.get(name) ?? new Map<number, Series>();
    const series = byStatus.get(status) ?? durations.series(name, template.path, String(status));
    if (byStatus.size === 0) template.series.set(name, byStatus);
    byStatus.set(status, series);
    series.observe(durationMs / 1_000);
  };
}

function newPlace(): Place {
  return { children: new Map(), parameter: null, rest: null, template: null };
}

function insert(root: Place, path: string): void {
  let place = root;
  for (const part of path.slice(1).split('/')) {
    if (part === '*') {
      place.rest ??= new Template(path);
      return;
    }
    if (part.startsWith(':')) place = place.parameter ??= newPlace();
    else {
      const next = place.children.get(part) ?? newPlace();
      place.children.set(part, next);
      place = next;
    }
  }
  place.template ??= new Template(path);
}

/** The template of an absolute URL's path. */
function find(root: Place, url: string): Template | null {
  const start = url.indexOf('/', url.indexOf('://') + 3);
  const query = url.indexOf('?', start);
  const end = query < 0 ? url.length : query;
  return walk(root, url, start + 1, end);
}

function walk(place: Place, url: string, start: number, end: number): Template | null {
  if (start > end) return place.template;
  const slash = url.indexOf('/', start);
  const stop = slash < 0 || slash > end ? end : slash;
  const child = place.children.get(url.slice(start, stop));
  const exact = child === undefined ? null : walk(child, url, stop + 1, end);
  if (exact !== null) return exact;
  const taken = place.parameter === null || stop === start ? null : walk(place.parameter, url, stop + 1, end);
  return taken ?? place.rest;
}
