// Chromium as tests of the console, the bench and the screenshots start it: headless, without a sandbox (containers run
// as root) and without a GPU, so that everything is drawn by software. `CHROMIUM` names another binary.
import { existsSync } from 'node:fs';
import process from 'node:process';
import { type Browser, chromium } from 'playwright-core';

export const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
export const hasChromium = existsSync(CHROMIUM);

const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, headless: true, args: ARGUMENTS });
}

/** What the console keeps of a person who has signed in, for sessionStorage. */
export function sessionOf(credential: string, tenant: string | null, name = 'Tester'): [key: string, value: string] {
  const kind = credential.startsWith('svc_ak_') ? 'owner' : credential.split('.').length === 3 ? 'user' : 'secret';
  return ['svc.session', JSON.stringify({ kind, credential, tenant, name, role: null, email: null })];
}
