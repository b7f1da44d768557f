// One call of a command: its options, its output, and the service it works with. Address, tenant and credential come from the
// options, else from the environment, else from the profile; a profile's credential is sent only to the profile's address.
// Ctrl-C aborts `signal`; a second one ends the program at once.
import process from 'node:process';
import type { Command } from 'commander';
import { EXIT, Failure } from './failures.ts';
import { Output } from './output.ts';
import { profileNamed } from './profiles.ts';
import { Service, type Target } from './service.ts';

export interface GlobalOptions {
  url?: string;
  tenant?: string;
  profile?: string;
  json?: boolean;
}

export const DEFAULT_URL = 'http://127.0.0.1:3000';

export class Call<Options extends object = object> {
  readonly options: Options & GlobalOptions;
  readonly output: Output;
  readonly signal: AbortSignal;
  #service: Service | undefined;

  constructor(options: Options & GlobalOptions) {
    this.options = options;
    this.output = new Output(options.json === true);
    this.signal = interruption().signal;
  }

  get service(): Service {
    this.#service ??= new Service(targetOf(this.options), this.signal, ({ error, waitMs }) =>
      this.output.note(`${error.message}; trying again in ${Math.ceil(waitMs / 1_000)} s`),
    );
    return this.#service;
  }

  /** The tenant's slug, for paths that need one. */
  async tenantSlug(): Promise<string> {
    const { tenant } = this.service.target;
    return tenant ?? (await this.whoami()).slug;
  }

  /** The tenant that the credential works in. */
  async whoami(): Promise<{ id: string; slug: string }> {
    const { tenant } = await this.service.get<{ tenant: { id: string; slug: string } | null }>('/api/auth/whoami');
    if (tenant === null) throw new Failure('no tenant is named', 'give --tenant, or set TDS_TENANT', EXIT.usage);
    return tenant;
  }
}

/** Sets the command's action: `work` gets the call, then the command's arguments. */
export function runs<Options extends object, Values extends unknown[]>(
  command: Command,
  work: (call: Call<Options>, ...values: Values) => Promise<void>,
): Command {
  return command.action(async (...given: unknown[]) => {
    const values = given.slice(0, -2) as Values;
    await work(new Call(command.optsWithGlobals<Options & GlobalOptions>()), ...values);
  });
}

export function targetOf(options: GlobalOptions): Target {
  const { TDS_URL, TDS_TENANT, TDS_KEY } = process.env;
  // If the environment has a key and an address is given, no profile is needed.
  const isComplete = options.profile === undefined && Boolean(TDS_KEY && (options.url ?? TDS_URL));
  const profile = isComplete
    ? undefined
    : profileNamed(options.profile ?? (process.env.TDS_PROFILE || undefined))?.profile;
  const url = addressOf(options.url ?? (TDS_URL || profile?.url || DEFAULT_URL));
  const isOfProfile = profile !== undefined && addressOf(profile.url) === url;
  return {
    url,
    tenant: options.tenant ?? (TDS_TENANT || (isOfProfile ? profile.tenant : undefined)),
    credential: TDS_KEY || (isOfProfile ? profile.credential : undefined),
  };
}

/** An address without a trailing slash; `127.0.0.1:3000` means http on this machine, another host means https. */
export function addressOf(given: string): string {
  const isLocal = /^(localhost|127\.|\[::1\])/.test(given);
  const text = /^https?:\/\//.test(given) ? given : `${isLocal ? 'http' : 'https'}://${given}`;
  if (!URL.canParse(text) || new URL(text).username !== '') {
    throw new Failure(`${JSON.stringify(given)} is no address such as ${DEFAULT_URL}`, null, EXIT.usage);
  }
  return text.replace(/\/+$/, '');
}

let shared: AbortController | undefined;

/** Aborted by the first SIGINT or SIGTERM; the reason is the exit code. */
function interruption(): AbortController {
  if (shared !== undefined) return shared;
  const controller = new AbortController();
  for (const [name, code] of [
    ['SIGINT', EXIT.interrupted],
    ['SIGTERM', EXIT.terminated],
  ] as const) {
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(code);
      controller.abort(code);
    });
  }
  shared = controller;
  return controller;
}

/** The exit code of the signal that ended the work; null if there was none. */
export function interruptedBy(): number | null {
  return shared?.signal.aborted ? (shared.signal.reason as number) : null;
}
