// How a command ends: exit codes, and messages on standard error. 0 is success, 1 a fault of the network, of a file or of the
// service itself, 2 wrong usage, 3 a refusal by the service, 128 and more a signal. Messages never repeat a credential.
// Contract: decisions#responses.
import { CommanderError } from 'commander';
import { ApiError, ConnectionError } from '../../client/src/client.ts';
import { jsonText, printable } from './output.ts';
import { reasonOf } from './reasons.ts';

export const EXIT = { ok: 0, failed: 1, usage: 2, refused: 3, interrupted: 130, terminated: 143 } as const;

/** The command was called in a way that cannot work. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The command was valid but could not be completed; `hint` says what to do. */
export class Failure extends Error {
  override readonly name = 'Failure';
  constructor(
    message: string,
    readonly hint: string | null = null,
    readonly exitCode: number = EXIT.failed,
  ) {
    super(message);
  }
}

/** The command did its work and has already reported the outcome. */
export class EndWith extends Error {
  override readonly name = 'EndWith';
  constructor(readonly exitCode: number) {
    super('');
  }
}

/** Whether the service understood the call and refused it. */
export function isRefusal(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status < 500 && error.code !== 'INVALID_RESPONSE';
}

/** Describes an error, as lines for people or one JSON object for programs, and gives the exit code. */
export function described(error: unknown, isJson: boolean): { text: string; exitCode: number } {
  if (error instanceof EndWith) return { text: '', exitCode: error.exitCode };
  if (error instanceof CommanderError) return ofParser(error, isJson);
  const exitCode = exitCodeOf(error);
  return { text: isJson ? asJson(error, exitCode) : asText(error), exitCode };
}

/** The outcome of Commander's own errors: it has already written its message for people, and help and version are not faults. */
function ofParser({ code, message, exitCode }: CommanderError, isJson: boolean): { text: string; exitCode: number } {
  if (exitCode === 0) return { text: '', exitCode: EXIT.ok };
  const fault = { code: 'USAGE', message: message.replace(/^error: /, '') };
  const isTold = !isJson || code === 'commander.help';
  return { text: isTold ? '' : jsonText({ error: fault }), exitCode: EXIT.usage };
}

function exitCodeOf(error: unknown): number {
  if (error instanceof UsageError) return EXIT.usage;
  if (error instanceof Failure) return error.exitCode;
  return isRefusal(error) ? EXIT.refused : EXIT.failed;
}

function asText(error: unknown): string {
  const lines = [`error: ${printable(messageOf(error))}`];
  if (error instanceof ApiError) {
    const { status, code, details, requestId } = error;
    lines[0] += ` (${status} ${printable(code)})`;
    if (details.length > 1) lines.push(...details.map(({ path, message }) => printable(`  ${path}: ${message}`)));
    if (status >= 500 && requestId !== null) lines.push(printable(`  request ${requestId}`));
  }
  const hint = hintOf(error);
  return [...lines, ...(hint === null ? [] : [`hint: ${printable(hint)}`])].join('\n');
}

function asJson(error: unknown, exitCode: number): string {
  const message = messageOf(error);
  if (error instanceof ApiError) {
    const { status, code, details, requestId } = error;
    return jsonText({ error: { code, message, status, details, requestId } });
  }
  return jsonText({ error: { code: exitCode === EXIT.usage ? 'USAGE' : 'FAILED', message } });
}

function messageOf(error: unknown): string {
  if (error instanceof ConnectionError) return `the service cannot be reached: ${reasonOf(error)}`;
  return error instanceof Error ? error.message : String(error);
}

function hintOf(error: unknown): string | null {
  if (error instanceof UsageError) return '`--help` after the command shows an example';
  if (error instanceof Failure) return error.hint;
  if (error instanceof ConnectionError) return '`tds doctor` says what to check';
  if (!(error instanceof ApiError)) return null;
  if (error.retryAfterMs !== null) return `the service asks to wait ${Math.ceil(error.retryAfterMs / 1_000)} s`;
  if (error.status === 401) return 'sign in with `tds login`, or set TDS_KEY; `tds doctor` checks the credential';
  if (error.status === 403) return '`tds whoami` shows what this credential may do';
  if (error.status === 503 || error.code === 'INVALID_RESPONSE') return '`tds doctor` says what is wrong';
  return null;
}
