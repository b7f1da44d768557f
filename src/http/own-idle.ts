// Responses that decide themselves how long their connection may be idle, such as an export, whose reader may pause longer
// than a request's client may. On Deno, whose server has no idle limit, this does nothing.
// Contract: neighbours#byte-budgets.

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
