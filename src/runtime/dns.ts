// Names and addresses from DNS. `lookup` of node:dns is not used: it blocks a thread for as long as a name server is silent,
// and the few threads of a process also hash passwords and write files, for all tenants. So names come from the hosts
// file, then from DNS, without a search list.
// Failures: rejects for a name without addresses. Times are milliseconds. Contract: neighbours#fair-shares.
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { DnsClient, type DnsTimes } from './dns-client.ts';

/** How long the answer of one address family waits for the other: some name servers never answer for one of them. */
const OTHER_FAMILY_MS = 1_000;

export interface ResolvedAddress {
  address: string;
  family: number;
}

/** Asks these servers, or the system's if there are none. */
export function openResolver(servers: readonly string[], times: DnsTimes): DnsClient {
  return new DnsClient(servers, times);
}

/** The addresses of a name, IPv4 first: all, or as many as fit into an answer. */
export async function addressesOf(resolver: DnsClient, name: string): Promise<ResolvedAddress[]> {
  const local = await addressesInHostsFile(name);
  if (local.length > 0) return local;
  const questions = [resolver.addresses(name, 'A'), resolver.addresses(name, 'AAAA')] as const;
  const patience = Promise.any(questions).then(() => delay(OTHER_FAMILY_MS, [], { ref: false }));
  const answerTo = (question: Promise<string[]>): Promise<string[]> => Promise.race([question, patience]);
  const [v4, v6] = await Promise.allSettled([answerTo(questions[0]), answerTo(questions[1])]);
  if (v4.status === 'rejected' && v6.status === 'rejected') throw v4.reason;
  const of = (answer: PromiseSettledResult<string[]>, family: number): ResolvedAddress[] =>
    answer.status === 'rejected' ? [] : answer.value.map((address) => ({ address, family }));
  return [...of(v4, 4), ...of(v6, 6)];
}

async function addressesInHostsFile(name: string): Promise<ResolvedAddress[]> {
  // A system without this file defines no local names.
  const text = await readFile('/etc/hosts', 'utf8').catch(() => '');
  const wanted = name.toLowerCase();
  return text.split('\n').flatMap((line) => {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().toLowerCase().split(/\s+/);
    return names.includes(wanted) ? [{ address, family: address.includes(':') ? 6 : 4 }] : [];
  });
}
