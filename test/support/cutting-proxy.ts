// A TCP proxy on a free loopback port that simulates network faults: it cuts one connection or all, refuses new ones,
// goes silent in both directions while connections stay open, or answers as an overloaded gateway does.
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';

export interface CuttingProxy {
  port: number;
  /** The address with the host and port of the proxy. */
  address(url: string): string;
  /** Cuts one open connection, chosen at random. */
  cutOne(): void;
  cutAll(): void;
  /** Cuts everything and closes new connections at once, until called with false. */
  refuse(isRefusing: boolean): void;
  /** Forwards nothing until called with false. */
  silence(isSilent: boolean): void;
  /** Cuts everything, and answers each new connection with this text and its end, until called with null. */
  answer(text: string | null): void;
  /** Cuts everything; new connections lead to this port. */
  lead(target: number): void;
  close(): void;
}

export async function cuttingProxy(first: number): Promise<CuttingProxy> {
  const open = new Map<Socket, Socket>();
  let target = first;
  let refusing = false;
  let answer: string | null = null;
  let silent = false;
  const cut = (client: Socket): void => {
    open.get(client)?.destroy();
    open.delete(client);
    client.destroy();
  };
  const connect = (from: Socket, to: Socket, client: Socket): void => {
    from.on('data', (bytes: Buffer) => void (silent || to.write(bytes)));
    from.on('error', () => cut(client));
    from.on('close', () => cut(client));
  };
  const server = createServer((client) => {
    if (refusing) {
      client.destroy();
      return;
    }
    if (answer !== null) {
      client.on('error', () => client.destroy());
      client.once('data', () => client.end(answer ?? ''));
      return;
    }
    const upstream = createConnection({ host: '127.0.0.1', port: target });
    open.set(client, upstream);
    connect(client, upstream, client);
    connect(upstream, client, client);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const port = (server.address() as AddressInfo).port;
  const cutAll = (): void => [...open.keys()].forEach(cut);
  return {
    port,
    address: (url) => Object.assign(new URL(url), { port: String(port) }).href,
    cutOne: () => {
      const clients = [...open.keys()];
      const one = clients[Math.floor(Math.random() * clients.length)];
      if (one) cut(one);
    },
    cutAll,
    refuse: (isRefusing) => {
      refusing = isRefusing;
      if (refusing) cutAll();
    },
    silence: (isSilent) => {
      silent = isSilent;
      if (!silent) cutAll();
    },
    answer: (text) => {
      answer = text;
      cutAll();
    },
    lead: (port) => {
      target = port;
      cutAll();
    },
    close: () => {
      cutAll();
      server.close();
    },
  };
}
