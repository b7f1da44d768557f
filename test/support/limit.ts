// Loaded before every test file, by bunfig.toml: how long a test or a hook may take before it counts as hanging. Far
// more than any of them needs, so that a busy machine fails none.
import { setDefaultTimeout } from 'bun:test';

setDefaultTimeout(120_000);
