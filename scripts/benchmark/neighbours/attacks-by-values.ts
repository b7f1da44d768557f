// Attacks by values whose processing could be costly, and by rules that multiply values or changes.
// Each request is small enough for the default body limit.
// Sizes are characters unless stated otherwise.

import { createPeople } from '../service.ts';
import { type Attack, json, records, type Strike } from './attack.ts';
import type { Attacker } from './attacker.ts';

/** Values whose processing could be costly. */
export const VALUE_ATTACKS: readonly Attack[] = [
  {
    id: 'marks',
    label: 'combining marks, by a role that may only create',
    prepare: async (attacker) => {
      await attacker.entity('notes', [{ key: 'text', type: 'text' }]);
      const key = await attacker.roleKey('notes', 'create');
      const body = json({ text: `a${'\u0301\u0323'.repeat(80_000)}` });
      return (signal) => attacker.flood(signal, 4, () => ({ method: 'POST', path: records('notes'), body, key }));
    },
  },
  {
    id: 'urls',
    label: 'long addresses in a url field',
    prepare: async (attacker) => {
      await attacker.entity('links', [{ key: 'link', type: 'url' }]);
      const body = json({ link: `https://a${'\u0301\u0323'.repeat(100_000)}.example` });
      return (signal) => attacker.flood(signal, 4, () => ({ method: 'POST', path: records('links'), body }));
    },
  },
  {
    id: 'pattern',
    label: 'the costliest pattern that a definition admits',
    prepare: async (attacker) => {
      const costly = { key: 'text', type: 'text', pattern: '(a?){60}(a|b|ab){0,60}(a*b*){0,50}c' };
      if (!(await attacker.tryCall('POST', '/api/entities', { name: 'codes', fields: [costly] }))) {
        await attacker.entity('codes', [{ ...costly, pattern: '(a?){60}(a|b|ab){0,60}c', maxLength: 5_000 }]);
      }
      const body = json({ text: 'ab'.repeat(2_500) });
      return (signal) => attacker.flood(signal, 4, () => ({ method: 'POST', path: records('codes'), body }));
    },
  },
];

/** Rules that multiply values or changes. */
export const RULE_ATTACKS: readonly Attack[] = [
  {
    id: 'template',
    label: 'a before rule that repeats a value 2,000 times',
    prepare: async (attacker) =>
      ruleStorm(attacker, 'before_create', { type: 'set', values: { b: '{{a}}'.repeat(2_000) } }),
  },
  {
    id: 'after-template',
    label: 'an after rule that repeats a value 2,000 times',
    prepare: async (attacker) =>
      ruleStorm(attacker, 'after_create', { type: 'update_record', values: { b: '{{a}}'.repeat(2_000) } }),
  },
  {
    id: 'rule-joins',
    label: '100 before rules over 5 relations, 8 bulk calls of 1,000',
    prepare: async (attacker) => {
      const people = await createPeople(attacker.api, 100);
      const keys = Array.from({ length: 5 }, (_, at) => `r${at}`);
      const relation = (key: string) => ({ key, type: 'relation', entity: 'people', onDelete: 'set_null' });
      await attacker.entity('links', [{ key: 'n', type: 'integer' }, ...keys.map(relation)]);
      const condition = keys.map((key) => `${key}.fullName = "x"`).join(' OR ');
      for (let at = 0; at < 100; at++) {
        const rule = { name: `rule ${at}`, entity: 'links', trigger: 'before_create', condition };
        await attacker.tryCall('POST', '/api/rules', { ...rule, action: { type: 'reject', message: 'no' } });
      }
      const data = (at: number) => Object.fromEntries(keys.map((key, i) => [key, people[(at + i) % people.length]]));
      const operations = Array.from({ length: 1_000 }, (_, at) => ({ op: 'create', data: data(at) }));
      const body = json({ operations });
      return (signal) => attacker.flood(signal, 8, () => ({ method: 'POST', path: `${records('links')}/bulk`, body }));
    },
  },
  {
    id: 'rule-chain',
    label: '8 after rules that each create a record of the same entity',
    prepare: async (attacker) => {
      await attacker.entity('tasks', [{ key: 'title', type: 'text' }]);
      for (let at = 0; at < 8; at++) {
        const action = { type: 'create_record', entity: 'tasks', values: { title: 'again' } };
        await attacker.tryCall('POST', '/api/rules', {
          name: `rule ${at}`,
          entity: 'tasks',
          trigger: 'after_create',
          action,
        });
      }
      const body = json({ title: 'first' });
      return (signal) => attacker.flood(signal, 2, () => ({ method: 'POST', path: records('tasks'), body }));
    },
  },
];

async function ruleStorm(attacker: Attacker, trigger: string, action: unknown): Promise<Strike> {
  await attacker.entity('texts', [
    { key: 'a', type: 'text' },
    { key: 'b', type: 'text' },
  ]);
  await attacker.tryCall('POST', '/api/rules', { name: 'storm', entity: 'texts', trigger, action });
  const body = json({ a: 'x'.repeat(500_000) });
  return (signal) => attacker.flood(signal, 4, () => ({ method: 'POST', path: records('texts'), body }));
}
