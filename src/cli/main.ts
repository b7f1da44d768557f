// The program `tds`: parses its arguments, runs one command, and ends with its exit code. It starts in a few dozen milliseconds
// because each command loads its dependencies only when it runs.
// Failures become one message on standard error and an exit code, see failures.ts.
import process from 'node:process';
import { interruptedBy } from './call.ts';
import { described, Failure } from './failures.ts';
import { endWithReader } from './output.ts';
import { buildProgram } from './program.ts';

async function main(parameters: readonly string[]): Promise<number> {
  endWithReader();
  const isJson = parameters.includes('--json');
  try {
    await buildProgram(isJson).parseAsync(parameters, { from: 'user' });
    return interruptedBy() ?? 0;
  } catch (error) {
    const interrupted = interruptedBy();
    // Ctrl-C is not a fault; only interrupted work is reported.
    if (interrupted !== null && !(error instanceof Failure)) return interrupted;
    const { text, exitCode } = described(error, isJson);
    if (text !== '') process.stderr.write(`${text}\n`);
    return exitCode;
  }
}

const code = await main(process.argv.slice(2));
// Exits once standard output is flushed, without waiting for connections that are kept open.
process.stdout.write('', () => process.exit(code));
