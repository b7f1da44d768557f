// Completes ../package-lock.json after `npm install` from a registry mirror without the packages of other
// platforms: npm omits them from the lock file, and `npm ci` refuses such a file on every platform.
// Adds an entry without integrity for each missing optional platform package, and prints it.
import { readFileSync, writeFileSync } from 'node:fs';

const path = new URL('../package-lock.json', import.meta.url);
const lock = JSON.parse(readFileSync(path, 'utf8'));

function entry(name, version, parent) {
  const [os, cpu, libc] = name
    .split('/')
    .at(-1)
    .replace(/^(cli|bun|typescript)-/, '')
    .split('-');
  return {
    version,
    cpu: [cpu === 'aarch64' ? 'arm64' : cpu],
    ...(parent.dev ? { dev: true } : {}),
    ...(libc ? { libc: [libc] } : {}),
    license: parent.license,
    optional: true,
    os: [os === 'windows' ? 'win32' : os],
  };
}

const [root, ...installed] = Object.entries(lock.packages);
const packages = Object.fromEntries(installed);
for (const [at, parent] of installed) {
  for (const [name, version] of Object.entries(parent.optionalDependencies ?? {})) {
    if (packages[`node_modules/${name}`] || packages[`${at}/node_modules/${name}`]) continue;
    packages[`node_modules/${name}`] = entry(name, version, parent);
    console.log(`added ${name}@${version}`);
  }
}
const sorted = Object.entries(packages).sort(([a], [b]) => (a < b ? -1 : 1));
lock.packages = Object.fromEntries([root, ...sorted]);
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`);
