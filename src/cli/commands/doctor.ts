// `tds doctor`: looks for the usual faults of an installation, over the network and, with --local, on its own machine, and
// suggests a remedy for each. Nothing is changed.
// Exit code 1 when there is a fault.
import type { Command } from 'commander';
import { ApiError } from '../../../client/src/client.ts';
import { type Call, runs } from '../call.ts';
import type { CheckName, Finding } from '../doctor/finding.ts';
import { EndWith, EXIT, Failure } from '../failures.ts';
import { printable } from '../output.ts';
import { versionOfPackage } from '../version.ts';

interface DoctorOptions {
  local?: boolean;
  origin?: string;
  verbose?: boolean;
}

const SIGNS = {
  ok: ['green', 'ok   '],
  note: ['yellow', 'note '],
  fault: ['red', 'FAULT'],
  skipped: ['dim', 'skip '],
} as const;

export function addDoctor(program: Command): void {
  const doctor = program
    .command('doctor')
    .option('--local', 'also look at the variables of this shell and of .env, at Postgres, Redis and the disk')
    .option('--origin <origin>', 'a site whose pages should be able to call the service')
    .option('--verbose', 'show what is well, too')
    .description('find what is wrong with an installation, and say the cure')
    .addHelpText('after', EXAMPLES);
  runs(doctor, examine);
}

const EXAMPLES = `
Examples:
  $ tds doctor --url https://data.example.com --origin https://app.example.com
  $ tds doctor --local        # in the directory and with the environment of the service`;

async function examine(call: Call<DoctorOptions>): Promise<void> {
  const findings = [...(call.options.local ? await local() : []), ...(await remote(call))];
  const faults = findings.filter(({ state }) => state === 'fault').length;
  await call.output.answer({ faults, findings }, () => tell(call, findings));
  if (faults > 0) throw new EndWith(EXIT.failed);
}

async function local(): Promise<Finding[]> {
  const { checkEnvironment } = await import('../doctor/environment.ts');
  const { findings, config } = checkEnvironment();
  if (config === null) return findings;
  const { checkStores } = await import('../doctor/stores.ts');
  return [...findings, ...(await checkStores(config))];
}

async function remote({ service, options }: Call<DoctorOptions>): Promise<Finding[]> {
  const context = { service, origin: options.origin, version: versionOfPackage() };
  const { checkNetwork } = await import('../doctor/network.ts');
  const { findings, isThere } = await checkNetwork(context);
  if (!isThere) return findings;
  const { checkIdentity } = await import('../doctor/identity.ts');
  const { checkChannels } = await import('../doctor/channels.ts');
  const { checkState } = await import('../doctor/state.ts');
  const { findings: ofCaller, identity } = await guarded('credential', () => checkIdentity(context), noIdentity);
  return [
    ...findings,
    ...ofCaller,
    ...(await guarded(
      'event-stream',
      () => checkChannels(context, identity),
      (finding) => [finding],
    )),
    ...(identity === null
      ? []
      : await guarded(
          'webhooks',
          () => checkState(context, identity),
          (finding) => [finding],
        )),
  ];
}

const noIdentity = (finding: Finding) => ({ findings: [finding], identity: null });

/** Runs a check. If the service interrupts it, that is a finding too, and the other checks still run. */
async function guarded<T>(check: CheckName, work: () => Promise<T>, instead: (finding: Finding) => T): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ApiError || error instanceof Failure)) throw error;
    return instead({ check, state: 'skipped', text: `could not be looked at: ${error.message}`, cure: null });
  }
}

async function tell({ output, options }: Call<DoctorOptions>, findings: readonly Finding[]): Promise<void> {
  const shown = options.verbose ? findings : findings.filter(({ state }) => state === 'note' || state === 'fault');
  for (const { check, state, text, cure } of shown) {
    const [tone, sign] = SIGNS[state];
    await output.line(`${output.tone(tone, sign)}  ${output.tone('bold', check)}: ${printable(text)}`);
    if (cure !== null) await output.line(`       cure: ${printable(cure)}`);
  }
  const count = (wanted: Finding['state']): number => findings.filter(({ state }) => state === wanted).length;
  await output.line(
    `faults: ${count('fault')}, notes: ${count('note')}, checks that are well: ${count('ok')}, not made: ${count('skipped')}`,
  );
}
