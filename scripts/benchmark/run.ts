// The state of a run: options, scratch databases, and both sides with their records in place.
// Types only: each stage of the run adds what the next one needs.
// A file of its own, because all stages use it.

import type { Cleanup } from './cleanup.ts';
import type { BareFixture, ServiceFixture } from './fixture.ts';
import type { Options } from './options.ts';
import type { Scratch } from './scratch.ts';
import type { ServiceEnv } from './service.ts';

export interface Run {
  options: Options;
  scratch: Scratch;
  directory: string;
  cleanup: Cleanup;
  log(line: string): void;
}

/** With the bare handler and its filled tables. */
export interface ServiceRun extends Run {
  bare: BareFixture;
}

/** With a running, filled service, and the environment to start it again. */
export interface Bench extends ServiceRun {
  env: ServiceEnv;
  fixture: ServiceFixture;
}
