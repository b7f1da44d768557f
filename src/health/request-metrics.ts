// Durations of requests by method, route template and status, in seconds, measured until the response headers
// are ready. Labels are templates, never paths as sent: those would reveal ids and exhaust memory. The path
// is matched here, since the framework does not see every request. Costs about a microsecond per request.
// Contract: decisions#metrics.

import type { Histogram } from 'prom-client';
import type { App } from '../app.ts';

/** A node of the route tree: one segment of the path. */
interface RouteNode {
  children: Map<string, RouteNode>;
  parameter: RouteNode | null;
  wildcard: Template | null;
  template: Template | null;
}

type Series = ReturnType<Histogram['labels']>;

/** The declared path of a route, and its series by method and status. */
class Template {
  readonly series = new Map<string, Series>();
  constructor(readonly path: string) {}
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
const OTHER_METHOD = '_OTHER';

/** Finds the route of a request, for its log line and metrics, and records its duration. */
export interface RequestMetrics {
  /** The declared path of the URL's route; '' when there is none. */
  routeOf(url: string): Route;
  observe(method: string, route: Route, status: number, durationMs: number): void;
}

export type Route = Pick<Template, 'path'>;

export function requestMetrics(app: App, routes: readonly { path: string }[]): RequestMetrics {
  const durations = app.metrics.histogram(
    'http_server_request_duration_seconds',
    'Duration of HTTP requests until their response headers.',
    ['http_request_method', 'http_route', 'http_response_status_code'],
  );
  const root = newNode();
  for (const { path } of routes) if (path !== '/*') insert(root, path);
  const unknown = new Template('');
  const observe = (method: string, route: Route, status: number, durationMs: number): void => {
    const template = route as Template;
    const name = METHODS.has(method) ? method : OTHER_METHOD;
    const key = `${name} ${status}`;
    let series = template.series.get(key);
    if (series === undefined) {
      series = durations.labels(name, template.path, String(status));
      template.series.set(key, series);
    }
    series.observe(durationMs / 1_000);
  };
  return { routeOf: (url) => find(root, url) ?? unknown, observe };
}

function newNode(): RouteNode {
  return { children: new Map(), parameter: null, wildcard: null, template: null };
}

function insert(root: RouteNode, path: string): void {
  let node = root;
  for (const part of path.slice(1).split('/')) {
    if (part === '*') {
      node.wildcard ??= new Template(path);
      return;
    }
    if (part.startsWith(':')) node = node.parameter ??= newNode();
    else {
      const next = node.children.get(part) ?? newNode();
      node.children.set(part, next);
      node = next;
    }
  }
  node.template ??= new Template(path);
}

/** The template of an absolute URL's path. */
function find(root: RouteNode, url: string): Template | null {
  const start = url.indexOf('/', url.indexOf('://') + 3);
  const query = url.indexOf('?', start);
  const end = query < 0 ? url.length : query;
  return walk(root, url, start + 1, end);
}

function walk(node: RouteNode, url: string, start: number, end: number): Template | null {
  if (start > end) return node.template;
  const slash = url.indexOf('/', start);
  const stop = slash < 0 || slash > end ? end : slash;
  const child = node.children.get(url.slice(start, stop));
  const exact = child === undefined ? null : walk(child, url, stop + 1, end);
  if (exact !== null) return exact;
  const byParameter = node.parameter === null || stop === start ? null : walk(node.parameter, url, stop + 1, end);
  return byParameter ?? node.wildcard;
}
