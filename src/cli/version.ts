// The version of this command line, which is that of the package it is part of. Read when it is asked for.
// Read from package.json.
// Never fails in an installation that is whole.
import { readFileSync } from 'node:fs';

export function versionOfPackage(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
