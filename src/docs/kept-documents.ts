// A cache of API documents as JSON, by what their callers may see. A document is valid while the tenant still has the
// definitions from which it was built; rights are part of its id. A document that is being built is shared by all that ask for
// it. A tenant's documents take at most half of the bytes.
// Contract: neighbours#fair-shares.
import { LIMITS } from '../limits.ts';
import { Compressed } from './compressed.ts';

const { keptBytes } = LIMITS.apiDocument;

export interface DocumentKey {
  id: string;
  share: string;
  /** The definitions, an object that a process keeps until they change; null without a tenant. */
  catalog: object | null;
}

interface Entry {
  share: string;
  catalog: WeakRef<object> | null;
  made: Promise<Compressed>;
  /** 0 while the document is being built. */
  bytes: number;
}

export class KeptDocuments {
  /** The entries in the order of use: the one used last is last. */
  readonly #entries = new Map<string, Entry>();

  /** The document, built unless it is cached. A failure is not cached. */
  get({ id, share, catalog }: DocumentKey, make: () => Promise<Uint8Array<ArrayBuffer>>): Promise<Compressed> {
    const known = this.#entries.get(id);
    this.#entries.delete(id);
    if (known !== undefined && (known.catalog?.deref() ?? null) === catalog) {
      this.#entries.set(id, known);
      return known.made;
    }
    const text = make();
    const made = text.then((bytes) => new Compressed(async () => bytes));
    const entry: Entry = { share, catalog: catalog && new WeakRef(catalog), made, bytes: 0 };
    this.#entries.set(id, entry);
    text.then(
      ({ byteLength }) => {
        entry.bytes = byteLength;
        this.#makeRoom(share);
      },
      () => {
        if (this.#entries.get(id) === entry) this.#entries.delete(id);
      },
    );
    return entry.made;
  }

  #makeRoom(share: string): void {
    this.#dropOldest((entry) => entry.share === share, keptBytes / 2);
    this.#dropOldest(() => true, keptBytes);
  }

  #dropOldest(isCounted: (entry: Entry) => boolean, max: number): void {
    const counted = [...this.#entries].filter(([, entry]) => isCounted(entry));
    let bytes = counted.reduce((sum, [, entry]) => sum + entry.bytes, 0);
    for (const [id, entry] of counted) {
      if (bytes <= max) return;
      if (entry.bytes === 0) continue;
      bytes -= entry.bytes;
      this.#entries.delete(id);
    }
  }
}
