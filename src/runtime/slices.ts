// Bytes in parts of a size, without a copy: what is handed over or read in pieces, so that little of it is held or worked on
// at once.
// Contract: neighbours#byte-budgets.

/** The bytes in parts of `size` bytes; the last one may have fewer. */
export function* slices(bytes: Uint8Array, size: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
