// Responses that set their own limit for an idle connection: an export, whose reader may pause longer than other clients may,
// and calls that work for longer before they answer. On Deno, whose server has no idle limit, this does nothing.
// Contract: neighbours#byte-budgets.

import { type App, perApp } from '../app.ts';

/** Sets the idle limit of a response's connection; more than 255 seconds means no limit. */
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

/** More than a connection's idle limit can be: no limit. */
const NO_LIMIT_S = 256;
const servers = perApp(() => ({ usualSeconds: 0, setIdle: (_request: Request, _seconds: number): void => undefined }));

/** For the server: the usual idle limit of a request's connection, and the function that sets another. */
export function setsIdle(app: App, usualSeconds: number, setIdle: (request: Request, seconds: number) => void): void {
  Object.assign(servers(app), { usualSeconds, setIdle });
}

/**
 * Runs a call that may take longer than a connection may be idle, without the idle limit: otherwise its client would be
 * disconnected while it waits. The usual limit applies again to the response, so that idle clients cannot hold connections.
 */
export async function mayTakeLong<T>(app: App, request: Request, run: () => Promise<T>): Promise<T> {
  const { usualSeconds, setIdle } = servers(app);
  setIdle(request, NO_LIMIT_S);
  try {
    return await run();
  } finally {
    setIdle(request, usualSeconds);
  }
}
