// What both adapters decide about a request before the application sees it: is it a WebSocket
// handshake, is its body over the ceiling, which address does it come from; and the envelope for
// the few answers that an adapter gives itself. Units: bytes.
// Contract: decisions#answers.
import { type ErrorCode, STATUS_BY_CODE } from '../errors.ts';

/** An answer in the error envelope. */
export function errorResponse(code: ErrorCode, message: string): Response {
  return new Response(JSON.stringify({ success: false, error: { code, message } }), {
    status: STATUS_BY_CODE[code],
    headers: { 'content-type': 'application/json; charset=utf-8' },
  });
}

/** The answer to whatever escapes the application: one fixed sentence. */
export function internalError(): Response {
  return errorResponse('INTERNAL_ERROR', 'internal error');
}

/** True for an attempt to open a WebSocket on `path`; a plain GET there is the application's. */
export function isSocketRequest(request: Request, path: string): boolean {
  const start = request.url.indexOf('/', 8);
  if (!request.url.startsWith(path, start)) return false;
  const next = request.url[start + path.length];
  return (next === undefined || next === '?') && request.headers.get('upgrade')?.toLowerCase() === 'websocket';
}

/** True when the handshake is complete, so that the runtime's upgrade cannot fail after state was made. */
export function validHandshake(request: Request): boolean {
  const key = request.headers.get('sec-websocket-key') ?? '';
  return (
    request.method === 'GET' &&
    request.headers.get('sec-websocket-version') === '13' &&
    /^[A-Za-z0-9+/]{22}==$/.test(key) &&
    /\bupgrade\b/i.test(request.headers.get('connection') ?? '')
  );
}

/** The 413 for a body whose declared length is over the ceiling. */
export function bodyTooLarge(request: Request, maxBody: number): Response | undefined {
  if (request.method === 'GET' || request.method === 'HEAD') return undefined;
  if (Number(request.headers.get('content-length') ?? 0) <= maxBody) return undefined;
  return errorResponse('PAYLOAD_TOO_LARGE', `the body may have at most ${maxBody} bytes`);
}

/** The client's address without the mapping that a dual-stack socket adds to IPv4. */
export function plainAddress(address: string | undefined): string {
  if (address === undefined) return '';
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}

/** The error of a server that could not listen, in words. */
export function listenError(hostname: string, port: number, cause: unknown): Error {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const name = cause instanceof Error ? cause.name : '';
  const why =
    code === 'EADDRINUSE' || name === 'AddrInUse'
      ? 'the address is already in use'
      : cause instanceof Error
        ? cause.message
        : String(cause);
  return new Error(`cannot listen on ${hostname}:${port}: ${why}`, { cause });
}

/** The address of a server in a form that a client can use. */
export function addressOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
