// All tenants of an installation as a folder: a document for each tenant, and `manifest.json` with everything that the documents
// lack. Each document is one snapshot, and the service keeps running. If a tenant is refused, a restore continues with the next
// one. Files are readable by their owner only.
import { createReadStream, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Call } from './call.ts';
import { saveDocument } from './document.ts';
import { Failure, isRefusal, UsageError } from './failures.ts';
import { counted, startProgress } from './progress.ts';
import type { Service } from './service.ts';
import { listTenants, TENANTS, type Tenant, tenantPath } from './tenants.ts';
import { versionOfPackage } from './version.ts';

export interface Backup {
  slug: string;
  file: string;
  bytes: number;
  counts: Record<string, number>;
  status: Tenant['status'];
  quotas: Tenant['quotas'];
}

interface Manifest {
  format: 'tenant-data-service-backup';
  version: 1;
  service: string;
  createdAt: string;
  tenants: Backup[];
}

export interface Restored {
  tenant: { slug: string };
  created: Record<string, number>;
  apiKey: string;
}

export interface RestoreResult {
  slug: string;
  restored: Restored | null;
  error: string | null;
}

const MANIFEST = 'manifest.json';
export const NDJSON = 'application/x-ndjson';

export async function backUpAll(call: Call, folder: string, withSecrets: boolean): Promise<Backup[]> {
  const { service, output } = call;
  const backups: Backup[] = [];
  for (const { slug } of await allTenants(service)) {
    const backup = await backUpOne(call, slug, folder, withSecrets);
    if (backup === null) output.note(`${slug} was deleted meanwhile`);
    else backups.push(backup);
  }
  const manifest: Manifest = {
    format: 'tenant-data-service-backup',
    version: 1,
    service: versionOfPackage(),
    createdAt: new Date().toISOString(),
    tenants: backups,
  };
  writeFileSync(join(folder, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600, flag: 'wx' });
  return backups;
}

/**
 * Lists the tenants twice, because a deletion moves other tenants to earlier pages, where a single pass would miss one of them.
 */
async function allTenants(service: Service): Promise<Tenant[]> {
  const found = new Map<string, Tenant>();
  for (const _ of [1, 2]) for await (const tenant of listTenants(service)) found.set(tenant.id, tenant);
  return [...found.values()].toSorted((a, b) => (a.slug < b.slug ? -1 : 1));
}

/** Backs up one tenant; null if it no longer exists. */
async function backUpOne(call: Call, slug: string, folder: string, withSecrets: boolean): Promise<Backup | null> {
  try {
    const { status, quotas } = await call.service.get<Tenant>(tenantPath(slug));
    const query = withSecrets ? { secrets: true } : {};
    const document = await call.service.download(`${tenantPath(slug)}/export`, query);
    const file = inFolder(`${slug}.ndjson`);
    const { bytes, counts } = await saveDocument(call, document, join(folder, file));
    return { slug, file, bytes, counts, status, quotas };
  } catch (error) {
    if (isRefusal(error) && error.status === 404) return null;
    throw error;
  }
}

export async function restoreAll(call: Call, folder: string, ids: string): Promise<RestoreResult[]> {
  const results: RestoreResult[] = [];
  for (const backup of readManifest(folder).tenants) {
    try {
      results.push({ slug: backup.slug, restored: await restoreOne(call, folder, backup, ids), error: null });
    } catch (error) {
      if (!isRefusal(error)) throw error;
      results.push({ slug: backup.slug, restored: null, error: error.message });
    }
  }
  return results;
}

async function restoreOne(call: Call, folder: string, backup: Backup, ids: string): Promise<Restored> {
  const { service, output } = call;
  const path = join(folder, inFolder(backup.file));
  const { size } = statSync(path);
  if (size !== backup.bytes) throw new Failure(`${path} has ${size} bytes, not ${backup.bytes} as the manifest says`);
  const progress = await startProgress(output, size);
  try {
    const body = counted(createReadStream(path), (length) => progress.add(length));
    const restored = await service.upload<Restored>(`${TENANTS}/import`, body, NDJSON, { ids });
    const { status, quotas } = backup;
    await service.patch(tenantPath(restored.tenant.slug), { status, quotas });
    return restored;
  } finally {
    progress.stop();
  }
}

/** Refuses a file name outside the folder, which a service or a manifest could contain. */
function inFolder(file: string): string {
  if (/^[\w-]+\.ndjson$/.test(file)) return file;
  throw new Failure(`${JSON.stringify(file)} is no name of a file in the folder of a backup`);
}

function readManifest(folder: string): Manifest {
  const path = join(folder, MANIFEST);
  try {
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest;
    if (manifest.format === 'tenant-data-service-backup' && manifest.version === 1) return manifest;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && !(error instanceof SyntaxError)) throw error;
  }
  throw new UsageError(`${path} is not there, or not of \`tds backup --all\`: the backup was not finished`);
}
