// What an attack is, and what all attacks share: the interface, the path of an entity's records, JSON texts.
// An attack has a tenant of its own, which it prepares before the victim is measured.
// Sizes are characters unless stated otherwise.

import type { Attacker } from './attacker.ts';

/** What a prepared attack does until the signal aborts. */
export type Strike = (signal: AbortSignal) => Promise<unknown>;

/**
 * A definition that a limit refuses is replaced by the largest that the limit admits, so that an attack stays the worst
 * that a tenant can do.
 */
export interface Attack {
  id: string;
  label: string;
  prepare(attacker: Attacker): Promise<Strike>;
}

export const records = (entity: string): string => `/api/entities/${entity}/records`;
export const json = (value: unknown): string => JSON.stringify(value);
