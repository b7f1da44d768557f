// What one run of the bench works with: the options, the scratch databases, both sides with their records in place.

import type { Cleanup } from './cleanup.ts';
import type { Options } from './options.ts';
import type { Scratch } from './scratch.ts';
import type { ServiceEnv } from './service.ts';
import type { BareWorld, ServiceWorld } from './world.ts';

export interface Run {
  options: Options;
  scratch: Scratch;
  directory: string;
  cleanup: Cleanup;
  say(line: string): void;
}

/** With the bare handler and its filled tables. */
export interface ServiceRun extends Run {
  bare: BareWorld;
}

/** A running, filled service and what is needed to make more of it. */
export interface Bench extends ServiceRun {
  env: ServiceEnv;
  world: ServiceWorld;
}
