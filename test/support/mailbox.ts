// The mails that a service without SMTP_URL writes into its data directory.
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { TestService } from './service.ts';

export interface WrittenMail {
  text: string;
  /** Permission bits of the file. */
  mode: number;
}

/** The mails to an address, oldest first, once no mail is queued and at least `count` are written. */
export async function mailsTo(service: TestService, address: string, count = 1): Promise<WrittenMail[]> {
  for (;;) {
    await service.mailSettled();
    const mails = await writtenTo(service, address);
    if (mails.length >= count) return mails;
    await delay(20);
  }
}

async function writtenTo(service: TestService, address: string): Promise<WrittenMail[]> {
  const directory = join(service.app.config.dataDir, 'mail');
  const files = await readdir(directory).catch(() => []);
  const mails = files.sort().map(async (file): Promise<WrittenMail> => {
    const path = join(directory, file);
    return { text: await readFile(path, 'utf8'), mode: (await stat(path)).mode & 0o777 };
  });
  return (await Promise.all(mails)).filter(({ text }) =>
    text.toLowerCase().includes(`\r\nto: ${address.toLowerCase()}\r\n`),
  );
}

/** The reset or invitation token in the newest mail to an address, once there are `nth` mails. */
export async function mailedToken(service: TestService, address: string, nth = 1): Promise<string> {
  const mail = (await mailsTo(service, address, nth)).at(-1);
  return /(?:token=|\/invite\/)([\w-]+)/.exec(mail?.text ?? '')?.[1] ?? '';
}
