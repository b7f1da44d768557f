// Loaded before the test files of a process, by bunfig.toml: the stores of this worker.
import { useStoresOfWorker } from './stores.ts';

useStoresOfWorker();
