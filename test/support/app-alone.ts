// The resources of a process without the service's workers, for tests of what those do: a running service would do it too.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type App, closeApp, createApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { startEmbedded } from '../../src/runtime/embedded.ts';
import { createLog } from '../../src/runtime/log.ts';
import { SECRETS } from './service.ts';
import { givenDatabaseUrl } from './stores.ts';

export interface AppAlone {
  app: App;
  close(): Promise<void>;
}

/** Opens the App on the database of this test process, or on a new embedded one, with the broker in memory. */
export async function openAppAlone(): Promise<AppAlone> {
  const directory = await mkdtemp(join(tmpdir(), 'app-alone-'));
  const log = createLog({ level: 'error', write: () => undefined });
  const given = givenDatabaseUrl();
  const embedded = given === undefined ? await startEmbedded(directory, log) : null;
  const config = readConfig({ ...SECRETS, DATA_DIR: directory, DEMO: '0', PORT: '0' });
  const app = await createApp(config, given ?? embedded?.url ?? '', log);
  const close = async (): Promise<void> => {
    await closeApp(app);
    await embedded?.stop();
    await rm(directory, { recursive: true, force: true });
  };
  return { app, close };
}
