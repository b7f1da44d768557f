// The profiles of a person: address, tenant and credential of each service that they work with, in one file of mode 0600 below
// the XDG configuration directory. The file is replaced as a whole by a rename, so a reader never sees half of it.
// Failures: a file that is not the JSON this program wrote, and names of unknown profiles.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
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
export function saveProfile(name: string, profile: Profile): void {
  const { profiles } = readProfiles();
  write({ current: name, profiles: { ...profiles, [name]: profile } });
}

export function useProfile(name: string): void {
  profileNamed(name);
  write({ ...readProfiles(), current: name });
}

/** Removes a profile. If it was the current one, the first of the others becomes current. */
export function removeProfile(name: string): void {
  profileNamed(name);
  const { current, profiles } = readProfiles();
  const { [name]: _, ...rest } = profiles;
  write({ current: current === name ? (Object.keys(rest)[0] ?? DEFAULT_PROFILE) : current, profiles: rest });
}

function write(profiles: Profiles): void {
  const file = profilesFile();
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const next = `${file}.${process.pid}`;
  rmSync(next, { force: true });
  writeFileSync(next, `${JSON.stringify(profiles, null, 2)}\n`, { mode: PRIVATE, flag: 'wx' });
  renameSync(next, file);
}
