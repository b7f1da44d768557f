// Loaded before every test file, by bunfig.toml: the stores of this worker, and the time after which a test or a hook
// counts as hanging. That is far more than any of them needs, so that none fails on a busy machine.
import { setDefaultTimeout } from 'bun:test';
import { useStoresOfWorker } from './stores.ts';

useStoresOfWorker();
setDefaultTimeout(120_000);
