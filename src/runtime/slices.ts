// Cuts bytes into parts of a given size, without a copy, for code that hands over or reads a large value in pieces and must not hold or
// process much of it at once.
// Contract: neighbours#byte-budgets.

/** The bytes in parts of `size` bytes; the last one may have fewer. */
export function* slices(bytes: Uint8Array, size: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}
