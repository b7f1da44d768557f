// The commit that a check compares with, and its checkout: the files of the commit in a directory of the run, with this
// checkout's dependencies, or its own where the lock files differ.
// A commit that the history does not have, as in a shallow clone, is null.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdir, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { RATIOS_FILE } from './committed-ratios.ts';

const LOCK = 'package-lock.json';
/** What makes the service as fast as it is. */
const MEASURED = ['src', 'sql', LOCK];

/**
 * The commit named, or the last one before this that changed the committed ratios, so that many small steps do not pass
 * one by one; without one, the previous commit.
 */
export function baseCommit(named: string): string | null {
  if (named !== '') return commit(named);
  const here = commit('HEAD');
  const changes = git('log', '-2', '--format=%H', '--', RATIOS_FILE)?.split('\n') ?? [];
  return changes.find((hash) => hash !== '' && hash !== here) ?? commit('HEAD^');
}

/** Whether the service of the working tree may be faster or slower than at the commit. */
export function differsFrom(base: string): boolean {
  return git('diff', '--quiet', base, '--', ...MEASURED) === null;
}

/** Resolves to the directory of the checkout. */
export async function checkOut(base: string, parent: string): Promise<string> {
  const directory = join(parent, 'base');
  await mkdir(directory);
  run('sh', ['-c', 'git archive "$0" | tar -x -C "$1"', base, directory]);
  const [here, there] = [LOCK, join(directory, LOCK)].map((file) => readFileSync(file, 'utf8'));
  if (here === there) await symlink(resolve('node_modules'), join(directory, 'node_modules'));
  else run('npm', ['ci', '--prefix', directory, '--no-audit', '--no-fund', '--loglevel=error']);
  return directory;
}

function commit(name: string): string | null {
  return git('rev-parse', '--quiet', '--verify', `${name}^{commit}`);
}

/** The output without its last line break; null when git fails, or is not there. */
function git(...command: string[]): string | null {
  const { status, stdout } = spawnSync('git', command, { encoding: 'utf8' });
  return status === 0 ? stdout.trimEnd() : null;
}

function run(command: string, parameters: string[]): void {
  const { status, stderr } = spawnSync(command, parameters, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${parameters.join(' ')}: ${stderr.slice(-500)}`);
}
