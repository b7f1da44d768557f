// The profiles of a person: address, tenant and credential of each service that they work with, in one file of mode 0600 below
// the XDG configuration directory. The file is replaced as a whole by a rename, so a reader never sees half of it. The new file
// is also the lock, so of two programs that change the profiles at once, neither undoes the other's change.
// Failures: a file that is not the JSON this program wrote, names of unknown profiles, and a lock that is not released.
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { Failure } from './failures.ts';

export interface Profile {
  url: string;
  tenant?: string;
  credential?: string;
}

interface Profiles {
  current: string;
  profiles: Record<string, Profile>;
}

export const DEFAULT_PROFILE = 'default';
const PRIVATE = 0o600;
/** A change takes a few milliseconds, so a lock of this age was left by a program that was killed. */
const LEFT_MS = 2_000;
const WAIT_MS = 10_000;
const POLL_MS = 20;

/** The path of the profiles file, with links resolved; `XDG_CONFIG_HOME` counts only if it is absolute. */
export function profilesFile(): string {
  const given = process.env.XDG_CONFIG_HOME ?? '';
  const file = join(given.startsWith('/') ? given : join(homedir(), '.config'), 'tds', 'profiles.json');
  return existsSync(file) ? realpathSync(file) : file;
}

/** Reads the profiles; none if there is no file. If others can read the file, revokes their access. */
export function readProfiles(): Profiles {
  const file = profilesFile();
  if (!existsSync(file)) return { current: DEFAULT_PROFILE, profiles: {} };
  if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, PRIVATE);
  try {
    const { current, profiles } = JSON.parse(readFileSync(file, 'utf8')) as Profiles;
    if (typeof current === 'string' && typeof profiles === 'object' && profiles !== null) return { current, profiles };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  throw new Failure(`${file} is not a file of profiles`, `move it away, and sign in with \`tds login\``);
}

/** The profile with this name, or the current one; null if no name is given and there is no current profile. */
export function profileNamed(name: string | undefined): { name: string; profile: Profile } | null {
  const { current, profiles } = readProfiles();
  const wanted = name ?? current;
  const profile = Object.hasOwn(profiles, wanted) ? profiles[wanted] : undefined;
  if (profile !== undefined) return { name: wanted, profile };
  if (name === undefined) return null;
  const known = Object.keys(profiles).join(', ') || 'none';
  throw new Failure(`there is no profile ${name}; known: ${known}`, `make it with \`tds login --profile ${name}\``, 2);
}

/** Stores a profile and makes it the current one. */
export function saveProfile(name: string, profile: Profile): Promise<void> {
  return change(({ profiles }) => ({ current: name, profiles: { ...profiles, [name]: profile } }));
}

export function useProfile(name: string): Promise<void> {
  return change((stored) => {
    profileNamed(name);
    return { ...stored, current: name };
  });
}

/** Removes a profile. If it was the current one, the first of the others becomes current. */
export function removeProfile(name: string): Promise<void> {
  return change(({ current, profiles }) => {
    profileNamed(name);
    const { [name]: _, ...rest } = profiles;
    return { current: current === name ? (Object.keys(rest)[0] ?? DEFAULT_PROFILE) : current, profiles: rest };
  });
}

/** Changes the stored profiles under the lock. */
async function change(changed: (stored: Profiles) => Profiles): Promise<void> {
  const file = profilesFile();
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const next = `${file}.next`;
  const descriptor = await locked(next);
  try {
    writeFileSync(descriptor, `${JSON.stringify(changed(readProfiles()), null, 2)}\n`);
    renameSync(next, file);
  } catch (error) {
    rmSync(next, { force: true });
    throw error;
  } finally {
    closeSync(descriptor);
  }
}

/** Creates the file that only one program at a time can create. */
async function locked(next: string): Promise<number> {
  const until = Date.now() + WAIT_MS;
  for (;;) {
    try {
      return openSync(next, 'wx', PRIVATE);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    if (Date.now() > until) throw new Failure(`${next} is in the way`, 'remove it');
    if (isLeft(next)) removeLeft(next);
    await delay(POLL_MS);
  }
}

function isLeft(next: string): boolean {
  return Date.now() - (statSync(next, { throwIfNoEntry: false })?.mtimeMs ?? Number.POSITIVE_INFINITY) > LEFT_MS;
}

/** Removes an abandoned lock. One program at a time does so: otherwise one could remove the new lock of another. */
function removeLeft(next: string): void {
  const own = `${next}.left`;
  try {
    mkdirSync(own);
  } catch {
    return;
  }
  try {
    if (isLeft(next)) rmSync(next, { force: true });
  } finally {
    rmdirSync(own);
  }
}
