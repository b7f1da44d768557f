// The first MCP call of a process must not delay all others: the protocol's schemas, which take 50 to 70 ms in one go, are made
// before the service listens.
// Contract: neighbours#fair-shares.
import { expect, test } from 'bun:test';
import { preloadSchemas } from '@modelcontextprotocol/server';
import { startService } from './support/service.ts';
import { threadTimes } from './support/stalls.ts';

test('a service has made the schemas of MCP before it listens', async () => {
  const service = await startService();
  try {
    const before = threadTimes().cpuMs;
    preloadSchemas();
    expect(threadTimes().cpuMs - before).toBeLessThan(10);
  } finally {
    await service.stop();
  }
});
