// Signing in and out, and the profiles: `tds login` checks a credential with the service before it stores it. A person's
// password is exchanged for a developer token and never stored.
// Contract: decisions#identity.
import type { Command } from 'commander';
import { addressOf, type Call, DEFAULT_URL, runs, targetOf } from '../call.ts';
import { EXIT, Failure, UsageError } from '../failures.ts';
import { ask, readSecret, requireSecretSource } from '../input.ts';
import { DEFAULT_PROFILE, profileNamed, readProfiles, removeProfile, saveProfile, useProfile } from '../profiles.ts';
import { Service, type Target } from '../service.ts';

interface LoginOptions {
  user?: string;
  key?: boolean;
  admin?: boolean;
  days: string;
}

interface Whoami {
  kind: string;
  tenant: { slug: string } | null;
  role: string | null;
  email: string | null;
}

export function addLoginCommands(program: Command): void {
  const login = program
    .command('login')
    .description('store address, tenant and credential as a profile')
    .argument('[source]', '`-` reads the password, key or secret from standard input; without it, it is asked for')
    .option('--user <email>', 'sign in as a person, with the password')
    .option('--key', 'sign in with a key or token')
    .option('--admin', 'sign in with the super-admin secret, which works in every tenant')
    .option('--days <number>', 'how long a person stays signed in, 1 to 365', '30')
    .addHelpText('after', LOGIN_EXAMPLES);
  runs(login, signIn);
  const logout = program
    .command('logout')
    .description('forget the current profile')
    .addHelpText('after', '\nExample:\n  $ tds logout --profile staging');
  runs(logout, forget);
  const who = program
    .command('whoami')
    .description('show address, tenant, credential and what it may do')
    .addHelpText('after', '\nExample:\n  $ tds whoami --json');
  runs(who, showCaller);
  const profiles = program.command('profiles').description('list the stored profiles, or choose one');
  runs(
    profiles
      .command('list', { isDefault: true })
      .description('list the stored profiles')
      .addHelpText('after', '\nExample:\n  $ tds profiles list'),
    listProfiles,
  );
  runs(
    profiles
      .command('use')
      .argument('<name>')
      .description('make a profile the current one')
      .addHelpText('after', '\nExample:\n  $ tds profiles use staging'),
    async (call: Call, name: string) => {
      await useProfile(name);
      call.output.note(`the current profile is ${name}`);
    },
  );
}

const LOGIN_EXAMPLES = `
Examples:
  $ tds login --url https://data.example.com --tenant acme --user ann@acme.test
  $ tds login --tenant demo --admin - < .data/admin-secret
  $ tds login --profile staging --key`;

async function signIn(call: Call<LoginOptions>, source?: string): Promise<void> {
  const { options, output, signal } = call;
  requireSecretSource(source);
  const given = targetOf({ ...options, profile: undefined });
  const url = options.url ? addressOf(options.url) : await askedAddress(given.url, source, signal);
  const name = options.profile ?? DEFAULT_PROFILE;
  const target: Target = { url, tenant: options.tenant ?? given.tenant, credential: undefined };
  target.credential = await credentialFor(call, target, source);
  const caller = await new Service(target, signal).get<Whoami>('/api/auth/whoami');
  const tenant = target.tenant ?? caller.tenant?.slug;
  await saveProfile(name, { url, ...(tenant === undefined ? {} : { tenant }), credential: target.credential });
  const result = { profile: name, url, tenant: tenant ?? null, kind: caller.kind, role: caller.role };
  await output.answer(result, () => {
    const where = tenant === undefined ? '' : ` in ${tenant}`;
    output.note(`signed in at ${url} as ${caller.email ?? caller.kind}${where}; the profile is ${name}`);
  });
}

/** Asks for the address, unless the credential comes from standard input, which then cannot answer. */
async function askedAddress(standard: string, source: string | undefined, signal: AbortSignal): Promise<string> {
  if (source === '-' || process.env.TDS_URL) return standard;
  const answer = await ask(`Address [${standard || DEFAULT_URL}]`, signal);
  return answer.trim() === '' ? standard : addressOf(answer.trim());
}

async function credentialFor(
  { options, signal }: Call<LoginOptions>,
  target: Target,
  source: string | undefined,
): Promise<string> {
  const ways = [options.user !== undefined, options.key === true, options.admin === true].filter(Boolean).length;
  if (ways > 1) throw new UsageError('give one of --user, --key and --admin');
  if (options.admin) return readSecret('Super-admin secret', source, signal);
  const email = options.user ?? (options.key || source === '-' ? '' : await ask('E-mail (empty: a key)', signal));
  if (email.trim() === '') return readSecret('Key', source, signal);
  target.tenant ??= (await ask('Tenant', signal)).trim();
  const password = await readSecret('Password', source, signal);
  const ttl = Number(options.days);
  if (!Number.isInteger(ttl)) throw new UsageError('--days takes a whole number');
  const { token } = await new Service(target, signal).post<{ token: string }>('/api/auth/tenant/developer-token', {
    email: email.trim(),
    password,
    ttl_days: ttl,
  });
  return token;
}

async function forget({ options, output }: Call): Promise<void> {
  const found = profileNamed(options.profile);
  if (found === null) throw new Failure('there is no profile to forget', null, EXIT.usage);
  await removeProfile(found.name);
  output.note(`the profile ${found.name} is forgotten`);
}

async function showCaller({ service, output }: Call): Promise<void> {
  const caller = await service.get<Whoami & Record<string, unknown>>('/api/auth/whoami');
  const { tenant, ...rest } = caller;
  await output.answer({ url: service.target.url, ...caller }, () =>
    output.members({ url: service.target.url, tenant: tenant?.slug ?? service.target.tenant, ...rest }),
  );
}

async function listProfiles({ output }: Call): Promise<void> {
  const { current, profiles } = readProfiles();
  // The rows do not show credentials.
  const rows = Object.entries(profiles).map(([name, { url, tenant = null, credential }]) => ({
    name,
    current: name === current,
    url,
    tenant,
    hasCredential: credential !== undefined,
  }));
  await output.answer(rows, () =>
    output.table(
      rows.map((row) => ({ ...row, current: row.current ? '*' : '' })),
      ['=current', 'name', 'url', 'tenant'],
    ),
  );
}
