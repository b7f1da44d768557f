// Closes the connections that a test opened, also when the test fails.
import { afterEach } from 'bun:test';

/** Returns a function that registers a connection of the running test; `afterwards` runs when all are closed. */
export function closeAfterEach(
  afterwards: () => Promise<void> = async () => undefined,
): <T extends { close(): void }>(connection: T) => T {
  const open: { close(): void }[] = [];
  afterEach(async () => {
    for (const connection of open.splice(0)) connection.close();
    await afterwards();
  });
  return (connection) => {
    open.push(connection);
    return connection;
  };
}
