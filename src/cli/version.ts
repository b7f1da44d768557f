// The version of this command line, which is the version of its package.
// Read from package.json when it is needed.
// Never fails in a complete installation.
import { readFileSync } from 'node:fs';

export function versionOfPackage(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
