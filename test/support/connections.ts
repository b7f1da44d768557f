// Connections that a test opens are closed after it, also when it fails.
import { afterEach } from 'bun:test';

/** A function that registers a connection of the running test and returns it; `afterwards` runs when all are closed. */
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
