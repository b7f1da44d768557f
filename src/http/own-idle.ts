// Responses that decide themselves how long their connection may be idle, such as an export, whose reader may pause longer
// than a request's client may. On Deno, whose server has no idle limit, this does nothing.
// Contract: neighbours#byte-budgets.

import { type App, perApp } from '../app.ts';

/** Sets the idle limit of a response's connection; over 255 seconds mean none. */
export type SetIdle = (seconds: number) => void;

const handlers = new WeakMap<Request, (setIdle: SetIdle) => void>();

/** Calls `onServed` when the server has taken the request's response. */
export function keepOwnIdle(request: Request, onServed: (setIdle: SetIdle) => void): void {
  handlers.set(request, onServed);
}

/** For the server: the request's response has been taken. */
export function served(request: Request, setIdle: SetIdle): void {
  handlers.get(request)?.(setIdle);
}

/** Over what a connection's idle limit can be: none. */
const NO_LIMIT_S = 256;
const servers = perApp(() => ({ setIdle: (_request: Request, _seconds: number): void => undefined }));

/** For the server: how the idle limit of a request's connection is set. */
export function setsIdle(app: App, setIdle: (request: Request, seconds: number) => void): void {
  servers(app).setIdle = setIdle;
}

/** The response may begin later than a connection may be idle: its client waits meanwhile. */
export function mayTakeLong(app: App, request: Request): void {
  servers(app).setIdle(request, NO_LIMIT_S);
}
