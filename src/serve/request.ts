// What both adapters decide before the application sees a request: whether it is a WebSocket handshake, whether its body is too large, and
// the client's address. Also the error envelope for answers that an adapter gives itself. Units: bytes.
// Contract: decisions#responses.
import { type ErrorCode, invalidField, ServiceError, STATUS_BY_CODE } from '../errors.ts';

/** An answer in the error envelope. */
export function errorResponse(code: ErrorCode, message: string): Response {
  return new Response(JSON.stringify({ success: false, error: { code, message } }), {
    status: STATUS_BY_CODE[code],
    headers: { 'content-type': 'application/json; charset=utf-8' },
  });
}

/** The answer to an error that the application did not handle. */
export function internalError(): Response {
  return errorResponse('INTERNAL_ERROR', 'internal error');
}

/** Whether the request opens a WebSocket on `path`; the application answers a plain GET there. */
export function isSocketRequest(request: Request, path: string): boolean {
  const start = request.url.indexOf('/', 8);
  if (!request.url.startsWith(path, start)) return false;
  const next = request.url[start + path.length];
  return (next === undefined || next === '?') && request.headers.get('upgrade')?.toLowerCase() === 'websocket';
}

/** Whether the handshake is complete: the upgrade must not fail after state has been created. */
export function validHandshake(request: Request): boolean {
  const key = request.headers.get('sec-websocket-key') ?? '';
  return (
    request.method === 'GET' &&
    request.headers.get('sec-websocket-version') === '13' &&
    /^[A-Za-z0-9+/]{22}==$/.test(key) &&
    /\bupgrade\b/i.test(request.headers.get('connection') ?? '')
  );
}

/**
 * The refusal of a declared length: 400 unless the length is one number (a repeated header arrives as a list), 413 when it is over the
 * limit.
 */
export function refusedLength(request: Request, maxBody: number): ServiceError | undefined {
  const declared = request.headers.get('content-length');
  if (declared === null) return undefined;
  if (!/^\d+$/.test(declared)) return invalidField('Content-Length', 'must be one number');
  if (request.method === 'GET' || request.method === 'HEAD' || Number(declared) <= maxBody) return undefined;
  return bodyTooLarge(maxBody);
}

/** 413; the connection is closed instead of reading the rest. */
export function bodyTooLarge(maxBody: number): ServiceError {
  const headers = { connection: 'close' };
  return new ServiceError('PAYLOAD_TOO_LARGE', `the body may have at most ${maxBody} bytes`, { headers });
}

/** The client's address without the IPv6 mapping that a dual-stack socket adds to IPv4. */
export function plainAddress(address: string | undefined): string {
  if (address === undefined) return '';
  return address.startsWith('::ffff:') && address.includes('.') ? address.slice(7) : address;
}

/** The error of a server that could not listen, with the reason in plain words. */
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

/** The address of a server as a URL. */
export function addressOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
